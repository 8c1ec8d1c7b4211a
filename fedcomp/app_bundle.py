"""The folder that `flwr run` is pointed at: a copy of just the app's packages and its pyproject.toml."""

from __future__ import annotations

import shutil
from pathlib import Path

PACKAGES = ("fedcomp", "server_app", "client_app", "dashboard")

# What the dashboard shows in a browser stays where it runs; a run only writes to its database.
_LEFT_OUT = ("__pycache__", "*.pyc", "static", "templates")


def settings_file() -> Path:
    """Return the pyproject.toml that holds the app's settings: the checkout's, or the copy that a wheel carries."""
    root = Path(__file__).resolve().parent.parent
    packaged = root / "fedcomp" / "app_pyproject.toml"
    return packaged if packaged.exists() else root / "pyproject.toml"


def stage_app(target: Path) -> Path:
    """Copy the installed app into ``target / "fedcomp"`` and return that folder.

    Works from a checkout and from an installed wheel alike; nothing else of either gets into the app bundle.
    """
    root = Path(__file__).resolve().parent.parent
    app = target / "fedcomp"
    app.mkdir(parents=True)
    for package in PACKAGES:
        shutil.copytree(root / package, app / package, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    text = settings_file().read_text(encoding="utf-8")
    (app / "pyproject.toml").write_text(text, encoding="utf-8")
    return app
