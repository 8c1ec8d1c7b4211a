"""FEDCOMP_HOME: the one folder that holds runs, checkpoints and caches.

Every entry point (``flwr run``, ``fedcomp``, the dashboard) resolves it through this module, so all see the same runs.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import platformdirs

ENVIRONMENT_VARIABLE = "FEDCOMP_HOME"


def home() -> Path:
    """Return the absolute path of FEDCOMP_HOME; the default is the platform's user-data directory.

    The folder is created, readable by its owner only, when it does not exist.
    """
    configured = os.environ.get(ENVIRONMENT_VARIABLE)
    path = Path(configured).expanduser() if configured else platformdirs.user_data_path("fedcomp", appauthor=False)
    path = path.absolute()
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return path


def database_url() -> str:
    """Return the URL of the runs database, ``sqlite:///<FEDCOMP_HOME>/runs.db`` with the path percent-encoded."""
    return f"sqlite:///{quote(str(home() / 'runs.db'))}"


def checkpoints_dir(run_id: str) -> Path:
    """Return the folder for one run's checkpoints (not created here)."""
    return home() / "checkpoints" / run_id


def cache_dir(name: str) -> Path:
    """Return (and create) a folder for things that can be made again."""
    path = home() / "cache" / name
    path.mkdir(parents=True, exist_ok=True)
    return path
