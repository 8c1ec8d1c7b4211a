"""Live progress of a sweep: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar

from fedcomp.sweeps.cells import Cell
from fedcomp.sweeps.runner import Progress

LINE_SECONDS = 60.0


class SweepProgress:
    """Shows how many rounds of a sweep are done, which runs are going on, and the time left."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next_line = time.monotonic() + LINE_SECONDS
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            console=console,
            disable=not console.is_interactive,
        )
        self._task = self._bar.add_task("", total=None, visible=False)
        self._last: Progress | None = None

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def poll(self, progress: Progress) -> None:
        """Show where the sweep is; where there is no terminal, a line a minute."""
        self._last = progress
        self._bar.update(
            self._task,
            total=progress.rounds,
            completed=progress.rounds_done,
            description=f"rounds ({_line(progress)})",
            visible=True,
        )
        if not self._console.is_interactive and time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + LINE_SECONDS
            self._print(f"{progress.rounds_done}/{progress.rounds} rounds, {_line(progress)}")

    def end(self, cell: Cell, failure: str | None) -> None:
        """Show that a cell ended."""
        left = "" if self._last is None else f" ({_line(self._last)})"
        self._print(f"{cell.key}: {'finished' if failure is None else f'failed: {failure}'}{left}")

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, highlight=False, markup=False)


def duration(seconds: float) -> str:
    """Return a duration as one reads it: ``40 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _line(progress: Progress) -> str:
    left = progress.seconds_left()
    words = [f"{progress.finished}/{progress.cells} runs finished"]
    words += [f"{len(progress.failed)} failed"] if progress.failed else []
    words += [] if left is None else [f"about {duration(left)} left"]
    return ", ".join(words)
