"""Tables of runs and rounds for the terminal, plain lines when it is not one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

from dashboard.schemas import RoundDetail, RunDetail, RunSummary


def rounds_table(run: RunDetail) -> Table:
    """Return one line a round: accuracy, loss, bytes, rate, time."""
    table = _table(
        f"run {run.id}: {run.task}, {run.compressor}",
        ("round", "accuracy", "loss", "clients", "uplink bytes", "envelope bytes", "bits/coordinate", "seconds"),
    )
    for item in run.rounds:
        table.add_row(*_round_cells(item))
    return table


def runs_table(runs: Iterable[RunSummary]) -> Table:
    """Return one line a run, newest first."""
    table = _table(
        None,
        ("run", "name", "task", "compressor", "seed", "status", "rounds", "accuracy", "uplink MB", "bits/coordinate"),
    )
    for run in runs:
        table.add_row(
            run.id,
            run.name,
            run.task,
            run.compressor,
            str(run.seed),
            run.status,
            f"{run.rounds_done}/{run.num_rounds}",
            number(run.last_accuracy, ".4f"),
            f"{run.total_uplink_payload_bytes / 1e6:.2f}",
            number(run.mean_bits_per_coordinate, ".3f"),
        )
    return table


def number(value: float | None, form: str) -> str:
    """Format a number that may be missing."""
    return "-" if value is None else format(value, form)


def print_table(table: Table) -> None:
    """Print with the terminal's width, or as wide as needed when the output is not a terminal."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(table)


def _round_cells(item: RoundDetail) -> Sequence[str]:
    clients = f"{item.clients}" + (f" ({item.rejected} rejected)" if item.rejected else "")
    return (
        str(item.round_index),
        number(item.accuracy, ".4f"),
        number(item.loss, ".4f"),
        clients,
        f"{item.uplink_payload_bytes:,}",
        f"{item.uplink_envelope_bytes:,}",
        number(item.bits_per_coordinate, ".3f"),
        f"{item.seconds:.1f}",
    )


def _table(title: str | None, columns: Sequence[str]) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(
            column, justify="left" if column in {"run", "name", "task", "compressor", "status"} else "right"
        )
    return table
