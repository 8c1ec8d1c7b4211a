"""Tables of runs and rounds for the terminal, plain lines when it is not one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from dashboard.schemas import RoundDetail, RunDetail, RunSummary

_WORDS = frozenset({"run", "name", "task", "compressor", "status", "client", "device"})


def rounds_table(run: RunDetail) -> Table:
    """Return one line a round: accuracy, loss, clients, payload bytes both ways, rate, time, what was not in order.

    The mean estimate's error has a column where it was measured.
    """
    measured = any(item.nmse is not None for item in run.rounds)
    table = make_table(
        f"run {run.id}: {run.task}, {run.compressor}",
        (
            "round",
            "accuracy",
            "loss",
            "clients",
            "uplink\nbytes",
            "downlink\nbytes",
            "bits/\ncoord.",
            *(["NMSE"] if measured else []),
            "seconds",
            "status",
        ),
    )
    for item in run.rounds:
        *cells, seconds, status = _round_cells(item)
        table.add_row(*cells, *([number(item.nmse, ".3g")] if measured else []), seconds, status)
    return table


def round_notes(run: RunDetail) -> list[str]:
    """Return one line for each round that has a note."""
    return [f"round {item.round_index} ({item.status}): {item.note}" for item in run.rounds if item.note]


def round_status(item: RoundDetail) -> str:
    """Say what was not as planned in a round, such as ``partial: 1 rejected, 2 late``; nothing for a round in order."""
    counts = [f"{count} {name}" for count, name in ((item.rejected, "rejected"), (item.late, "late")) if count]
    marks = [] if item.status == "ok" else [item.status]
    return ": ".join(marks + ([", ".join(counts)] if counts else []))


def runs_table(runs: Iterable[RunSummary]) -> Table:
    """Return one line a run, newest first."""
    table = make_table(
        None,
        (
            "run",
            "name",
            "task",
            "compressor",
            "seed",
            "status",
            "rounds",
            "accuracy",
            "uplink\nMB",
            "down-\nlink MB",
            "bits/\ncoord.",
        ),
        padding=0,
    )
    for run in runs:
        table.add_row(
            run.id,
            run.name,
            run.task,
            run.compressor,
            str(run.seed),
            run.shown_status,
            f"{run.rounds_done}/{run.num_rounds}",
            number(run.last_accuracy, ".4f"),
            f"{run.total_uplink_payload_bytes / 1e6:.2f}",
            f"{run.total_downlink_payload_bytes / 1e6:.2f}",
            number(run.mean_bits_per_coordinate, ".3f"),
        )
    return table


def number(value: float | None, form: str) -> str:
    """Format a number that may be missing."""
    return "-" if value is None else format(value, form)


def make_table(title: str | None, columns: Sequence[str], *, padding: int = 1) -> Table:
    """Return an empty table: numbers to the right and whole, words to the left and folded where space is short."""
    table = Table(title=title, title_justify="left", padding=(0, padding))
    for column in columns:
        words = column in _WORDS
        # A run's id is there to be copied.
        table.add_column(
            column, justify="left" if words else "right", overflow="fold", no_wrap=not words or column == "run"
        )
    return table


def print_table(table: Table) -> None:
    """Print with the terminal's width, or as wide as needed when the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)


def _round_cells(item: RoundDetail) -> Sequence[str]:
    return (
        str(item.round_index),
        number(item.accuracy, ".4f"),
        number(item.loss, ".4f"),
        f"{item.clients}/{item.asked}" if item.asked else f"{item.clients}",
        f"{item.uplink_payload_bytes:,}",
        f"{item.downlink_payload_bytes:,}",
        number(item.bits_per_coordinate, ".3f"),
        f"{item.seconds:.1f}",
        round_status(item),
    )
