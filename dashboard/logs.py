"""The end of a run's log, where the run was started on this machine."""

from __future__ import annotations

import os
import re

from fedcomp.home import home

_TAIL_BYTES = 16_384
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def log_tail(flower_run_id: str | None, *, lines: int = 60) -> str | None:
    """Return the last lines of ``FEDCOMP_HOME/logs/<flower run id>.log``, or None where there is no such log."""
    # The id comes from whoever wrote the run: only digits name a file.
    if flower_run_id is None or not re.fullmatch(r"[0-9]{1,20}", flower_run_id):
        return None
    try:
        with (home() / "logs" / f"{flower_run_id}.log").open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return None
    return "\n".join(_COLOURS.sub("", text).splitlines()[-lines:])
