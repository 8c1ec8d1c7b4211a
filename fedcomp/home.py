"""FEDCOMP_HOME: the one folder that holds runs, checkpoints and caches.

Every entry point (``flwr run``, ``fedcomp``, the dashboard) resolves it through this module, so all see the same runs.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import quote

import platformdirs

ENVIRONMENT_VARIABLE = "FEDCOMP_HOME"

_LONGEST_NAME = 100


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
    """Return the URL of the runs database: what FEDCOMP_DATABASE_URL says, else SQLite in FEDCOMP_HOME."""
    configured = os.environ.get("FEDCOMP_DATABASE_URL")
    if configured:
        return configured
    return f"sqlite:///{quote(str(home() / 'runs.db'))}"


def store_url() -> str:
    """Return where runs are recorded: with the dashboard that FEDCOMP_DASHBOARD_URL names, else in the database."""
    return os.environ.get("FEDCOMP_DASHBOARD_URL") or database_url()


def checkpoints_dir(run_id: str) -> Path:
    """Return the folder for one run's checkpoints (not created here)."""
    return home() / "checkpoints" / run_id


def logs_dir() -> Path:
    """Return the folder for logs of runs (not created here)."""
    return home() / "logs"


def log_file(flower_run_id: str) -> Path:
    """Return where the log of one of Flower's runs lies (not created here)."""
    return logs_dir() / f"{flower_run_id}.log"


def clients_dir() -> Path:
    """Return the folder for what clients keep between rounds, one folder a run (not created here)."""
    return home() / "clients"


def client_state_dir(run: str, client: str) -> Path:
    """Return the folder for what one client of one run keeps between rounds (not created here).

    Any two strings will do: each is the name of one folder, and different strings have different ones.
    """
    return clients_dir() / _folder_name(run) / _folder_name(client)


def sealing_dir() -> Path:
    """Return the folder of the throwaway keys that seal a simulation's messages (not created here)."""
    return home() / "sealing"


def simulated_site_dir(client: str) -> Path:
    """Return the folder of one simulated client's throwaway key (not created here)."""
    return sealing_dir() / "sites" / _folder_name(client)


def sent_file(site: str) -> Path:
    """Return where a site notes what left it (not created here)."""
    return home() / "sent" / f"{_folder_name(site)}.jsonl"


def cache_dir(name: str) -> Path:
    """Return (and create) a folder for things that can be made again."""
    path = home() / "cache" / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def _folder_name(text: str) -> str:
    """Map any string to a file name of its own, at most 100 characters long."""
    quoted = quote(text, safe="", errors="surrogatepass")
    # quote leaves dots alone, of which a path makes parents and hidden files.
    name = "%2E" + quoted[1:] if quoted.startswith(".") else quoted or "%"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    # quote leaves no equals sign, so that no other string has this name.
    return f"{name[: _LONGEST_NAME - 1 - len(digest)]}={digest}"
