"""The example of an existing app, in a folder of its own."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

APP = Path(__file__).resolve().parents[2] / "examples" / "existing_app"
DIFF = APP / "compress.diff"


def copy(target: Path, *, compress: bool) -> Path:
    """Copy the app to ``target``, with the change that compresses it or without."""
    shutil.copytree(APP, target, ignore=shutil.ignore_patterns("__pycache__"))
    if compress:
        # Inside of a repository git would silently apply nothing.
        outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(target.parent)}
        subprocess.run(["git", "apply", str(DIFF)], cwd=target, check=True, env=outside)
    return target


def accuracies(printed: str) -> list[float]:
    """Return what the app prints at its end, one number a round."""
    (line,) = re.findall(r"accuracy by round: \[(.+)\]", printed)
    return [float(item) for item in line.split(",")]
