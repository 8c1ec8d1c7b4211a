"""``fedcomp show``: one run, round by round."""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard.store import RunStore
from fedcomp.commands.tables import print_table, rounds_table
from fedcomp.home import database_url, home


def show(
    run: Annotated[str, typer.Argument(help="A run's id or the start of it, its name, or 'latest'.")] = "latest",
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON for programs, with every client of every round.")
    ] = False,
) -> None:
    """Show one run: rounds, settings, where its checkpoint is."""
    with RunStore(database_url()) as store:
        found = store.find_run(run)
    if json:
        typer.echo(found.model_dump_json(indent=2))
        return
    print_table(rounds_table(found))
    typer.echo(f"data: {found.data_label}")
    typer.echo(f"status: {found.status}" + (f" ({found.error})" if found.error else ""))
    typer.echo(f"checkpoint: {found.checkpoint_path or 'none'}")
    typer.echo(f"records in {home()}")
