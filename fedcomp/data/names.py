"""Where prepared data sets lie, and what they may be called."""

from __future__ import annotations

import re
from pathlib import Path

from fedcomp import home
from fedcomp.errors import ConfigError

_NAME = re.compile(r"[a-z][a-z0-9_\-]{0,63}")
# What a task's option `data` says when it means no prepared data set, and words that a spec string reads as values.
_RESERVED = frozenset({"synthetic", "embedded", "hub", "true", "false", "nan", "inf", "infinity"})


def data_home() -> Path:
    """Return ``FEDCOMP_HOME/data``, the folder of all prepared data sets (not created here)."""
    return home.home() / "data"


def data_folder(name: object) -> Path:
    """Return the folder of one prepared data set (not created here); a path, which a site may bring, is one already.

    Raises
    ------
    ConfigError
        When it is no path, and not 1 to 64 of a-z, 0-9, ``-`` and ``_``, beginning with a letter, or is reserved.
    """
    if isinstance(name, Path):
        return name
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _RESERVED:
        raise ConfigError(
            f"{name!r} cannot be a data set's name; use up to 64 of a-z, 0-9, - and _, beginning with a letter, "
            f"and none of {', '.join(sorted(_RESERVED))}"
        )
    return data_home() / name


def prepared_names() -> list[str]:
    """Return the names of the prepared data sets, sorted."""
    folder = data_home()
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if (path / "manifest.json").is_file() and path.name[0] != ".")
