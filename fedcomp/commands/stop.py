"""``fedcomp stop``: let a run end after the round in progress."""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard.store import RunStore
from fedcomp.commands.program import program
from fedcomp.home import database_url


def stop(
    run: Annotated[str, typer.Argument(help="A run's id or the start of it, its name, or 'latest'.")],
) -> None:
    """Ask a run to end after the round in progress; what it has learnt and recorded stays."""
    with RunStore(database_url()) as store:
        before = store.find_run(run)
        asked = store.request_stop(before.id)
    if before.stop_requested_at is not None:
        typer.echo(f"run {asked.id} was asked to stop before, at {before.stop_requested_at:%Y-%m-%d %H:%M:%S} UTC")
    last = min(asked.rounds_done + 1, asked.num_rounds)
    typer.echo(
        f"run {asked.id} ends when round {last} of {asked.num_rounds} is over; its model and its records stay, and "
        f"`{program()} show {asked.id}` tells when it has ended"
    )
    typer.echo(f"if its process is gone it cannot end: `{program()} simulate --resume {asked.id}` takes it up again")
