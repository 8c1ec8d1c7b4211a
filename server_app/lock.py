"""One process a run: two that write the same checkpoints and records would ruin both."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fedcomp.errors import FedcompError


class RunIsHeld(FedcompError):
    """Another process runs this run."""


@contextmanager
def hold_run(folder: Path) -> Iterator[None]:
    """Hold a run's checkpoint folder for as long as the ``with`` block lasts; a killed process lets go of it.

    Raises
    ------
    RunIsHeld
        When another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunIsHeld(
                f"run {folder.name} is being run by another process; stop it with `fedcomp stop {folder.name}` or "
                "wait for its end, then resume"
            ) from error
        yield
    finally:
        os.close(descriptor)
