"""Events on their way to a dashboard, in a file a run, so that neither a dead network nor a restart loses any.

A spool is a folder ``<FEDCOMP_HOME>/spool/<run>`` with ``events.jsonl``, one JSON event a line, which only grows, and
``delivered``, the number of its bytes that the dashboard has confirmed. One process appends (the run's server app);
any one process at a time delivers, which a lock says.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_EVENTS = "events.jsonl"
_DELIVERED = "delivered"
_LOCK = "lock"
MOST_BYTES = 4 * 2**20


@dataclass(frozen=True)
class Pending:
    """Lines that wait for delivery, the oldest first, and the number of bytes that will then be delivered."""

    lines: tuple[str, ...]
    end: int


class Spool:
    """The events of one run that a dashboard is to be told.

    Parameters
    ----------
    folder
        Where they are kept; made with the first event.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._events = folder / _EVENTS

    @property
    def run_id(self) -> str:
        """The run whose events these are."""
        return self.folder.name

    def exists(self) -> bool:
        """Return whether there ever was an event that is not forgotten."""
        return self._events.exists()

    def append(self, line: str) -> int:
        """Add one event and return how many bytes there are now; what a crash left half-written goes first.

        Raises ``OSError`` when the disk refuses; the file is then as before.
        """
        with self._appending() as file:
            size = _whole_lines(file.fileno())
            file.truncate(size)
            try:
                file.write(line.encode() + b"\n")
                file.flush()
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise
            return file.tell()

    def delivered(self) -> int:
        """Return how many bytes the dashboard has confirmed."""
        try:
            return int((self.folder / _DELIVERED).read_text())
        except (FileNotFoundError, ValueError):
            return 0

    def is_empty(self) -> bool:
        """Return whether all is delivered."""
        return not self.exists() or self._events.stat().st_size <= self.delivered()

    def pending(self, most_events: int) -> Pending:
        """Return the oldest lines that are not delivered: whole ones, 4 MiB together or a single one."""
        done = self.delivered()
        if not self.exists():
            return Pending((), done)
        lines: list[str] = []
        end = done
        with self._events.open("rb") as file:
            file.seek(done)
            for line in file:
                if (
                    not line.endswith(b"\n")
                    or len(lines) == most_events
                    or (lines and end + len(line) - done > MOST_BYTES)
                ):
                    break
                lines.append(line.decode().rstrip("\n"))
                end += len(line)
        return Pending(tuple(lines), end)

    def confirm(self, end: int) -> None:
        """Note that this many bytes are delivered."""
        draft = self.folder / f"{_DELIVERED}.new"
        draft.write_text(str(end))
        draft.replace(self.folder / _DELIVERED)

    def forget(self) -> None:
        """Take the files away, unless an event has come in; for a run that has ended and is delivered."""
        with self._events.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not self.is_empty():
                return
            # In this order: a crash in between means that all is delivered once more, which changes nothing.
            for name in (_DELIVERED, _EVENTS, _LOCK):
                (self.folder / name).unlink(missing_ok=True)
        with suppress(OSError):  # somebody has begun anew in it
            self.folder.rmdir()

    @contextmanager
    def _appending(self) -> Iterator[BinaryIO]:
        """Open the file for appending, with a lock against its being forgotten meanwhile."""
        while True:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with suppress(FileNotFoundError), self._events.open("a+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if self._events.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    yield file
                    return

    @contextmanager
    def delivering(self) -> Iterator[bool]:
        """Hold the right to deliver while the ``with`` block lasts; gives False where another process has it."""
        with ExitStack() as stack:
            try:
                file = stack.enter_context((self.folder / _LOCK).open("w"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, FileNotFoundError):  # somebody delivers it, or has delivered it whole
                yield False
                return
            yield True


def spools(root: Path) -> list[Spool]:
    """Return the spools in a folder, the oldest run first."""
    return [Spool(path.parent) for path in sorted(root.glob(f"*/{_EVENTS}"))]


def _whole_lines(descriptor: int) -> int:
    """Return the length of a file without what follows its last line end."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        begin = max(end - 65536, 0)
        found = os.pread(descriptor, end - begin, begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0
