"""How this command is called on this machine, for messages that say what to type next."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path


def program() -> str:
    """Return ``fedcomp`` when that is on the PATH, else the path it was started by, such as ``.venv/bin/fedcomp``."""
    started = Path(sys.argv[0])
    found = shutil.which("fedcomp")
    if started.name != "fedcomp" or (found is not None and Path(found).resolve() == started.resolve()):
        return "fedcomp"
    relative = os.path.relpath(started)
    return relative if len(relative) < len(str(started)) else str(started)
