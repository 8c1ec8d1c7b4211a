"""``fedcomp runs``: what was run on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard.store import RunStore
from fedcomp.commands.program import program
from fedcomp.commands.tables import print_table, runs_table
from fedcomp.home import database_url, home


def runs(
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many runs at most, newest first.")] = 50,
) -> None:
    """List the runs in FEDCOMP_HOME, newest first."""
    with RunStore(database_url()) as store:
        found = store.list_runs(limit)
    if json:
        typer.echo("[" + ",\n ".join(run.model_dump_json() for run in found) + "]")
        return
    if not found:
        typer.echo(f"no runs in {home()} yet; start one with `{program()} simulate`")
        return
    print_table(runs_table(found))
    typer.echo(f"{len(found)} run{'s' * (len(found) != 1)} in {home()}; `{program()} show RUN` shows one")
