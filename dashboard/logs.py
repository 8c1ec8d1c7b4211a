"""The end of a run's log, where the run was started on this machine."""

from __future__ import annotations

import os
import re
from pathlib import Path

from fedcomp.home import log_file

_TAIL_BYTES = 16_384
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def log_tail(flower_run_id: str | None, *, lines: int = 60) -> str | None:
    """Return the last lines of a run's log without colours, or None where there is no log."""
    path = _path(flower_run_id)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    return "\n".join(_COLOURS.sub("", text).splitlines()[-lines:])


def log_stamp(flower_run_id: str | None) -> tuple[str, int, int] | None:
    """Return what differs as soon as a run's log does, without reading it; None where there is no log."""
    path = _path(flower_run_id)
    if path is None:
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    return path.name, found.st_size, found.st_mtime_ns


def _path(flower_run_id: str | None) -> Path | None:
    # The id comes from whoever wrote the run: only digits name a file.
    known = flower_run_id is not None and re.fullmatch(r"[0-9]{1,20}", flower_run_id)
    return log_file(str(flower_run_id)) if known else None
