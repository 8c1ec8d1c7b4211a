"""Live progress of a run: a bar in a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dashboard.schemas import RoundDetail
from dashboard.store import RunStore
from fedcomp.commands.tables import round_status


class RunProgress:
    """Shows what the store learns of one run."""

    def __init__(self, store: RunStore, console: Console) -> None:
        self._store = store
        self._console = console
        self._run_id: str | None = None
        self._shown = 0
        self._uplink = 0
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_interactive,
        )
        self._task = self._bar.add_task("starting Flower", total=None)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def poll(self, flower_run_id: str) -> None:
        """Show the rounds that are new since the last call."""
        if self._run_id is None:
            run = self._store.find_by_flower_run(flower_run_id)
            if run is None:
                return
            self._run_id = run.id
            self._bar.update(self._task, total=run.num_rounds, description="waiting for round 1")
            self._print(f"run {run.id} · {run.task} · {run.compressor} · dim {run.dim:,}")
            self._print(f"data: {run.data_label}")
        for item in self._store.rounds_after(self._run_id, self._shown):
            self._shown = item.round_index
            self._uplink += item.uplink_payload_bytes
            line = _line(item, self._uplink)
            self._bar.update(self._task, completed=item.round_index, description=line)
            if not self._console.is_interactive:
                self._print(line)

    def _print(self, line: str) -> None:
        self._console.print(line, soft_wrap=True, highlight=False)


def _line(item: RoundDetail, uplink: int) -> str:
    accuracy = "-" if item.accuracy is None else f"{item.accuracy:.3f}"
    status = round_status(item)
    return (
        f"round {item.round_index}: accuracy {accuracy}, uplink {uplink / 1e6:.2f} MB so far, "
        f"{item.bits_per_coordinate:.3f} bits/coordinate, {item.seconds:.1f} s"
        f"{f' · {status}' if status else ''}{f' · {item.note}' if item.note else ''}"
    )
