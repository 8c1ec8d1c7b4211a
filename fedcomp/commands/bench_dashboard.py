"""``fedcomp bench dashboard``: how long pages and API calls take on many long runs."""

from __future__ import annotations

import tempfile
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fedcomp.commands.bench_output import collect, print_json, print_repeat
from fedcomp.commands.tables import print_table

_COLUMNS = ("call", "kB", "first, ms", "warm, ms", "slowest, ms")


def dashboard(
    database: Annotated[
        str | None,
        typer.Option(
            help="Database URL; an empty one is filled, another is measured as it is. "
            "By default a temporary SQLite file of 4 MB a run."
        ),
    ] = None,
    runs: Annotated[int, typer.Option(min=1, help="Runs that are made up.")] = 200,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of each.")] = 1500,
    clients: Annotated[int, typer.Option(min=1, help="Clients in each round.")] = 10,
    tries: Annotated[int, typer.Option(min=1, help="Calls of each address after the first.")] = 5,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Make up many long runs and measure the dashboard on them: first and later calls of its pages and its API."""
    from dashboard.benchmark import CALLS, measure
    from dashboard.made_up_runs import fill
    from dashboard.run_list import list_runs
    from dashboard.schemas_compare import RunFilter
    from dashboard.store import RunStore

    progress = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        url = database or f"sqlite:///{folder}/runs.db"
        with RunStore(url) as store:
            if not store.list_runs(limit=1):
                made = fill(store, runs=runs, rounds=rounds, clients=clients, seed=1)
                for _ in track(made, "making runs", total=runs, console=progress, disable=not progress.is_interactive):
                    pass
            with store.reading() as session:
                total = list_runs(session, RunFilter(archived=None), limit=1).total
        results = collect(measure(url, tries=tries), CALLS)
    if json:
        print_json(results)
        return
    table = Table()
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column == "call" else "right")
    for item in results:
        times = (item.first, item.warm, item.slowest)
        table.add_row(item.call, f"{item.kilobytes:.0f}", *(f"{1000 * seconds:,.0f}" for seconds in times))
    print_table(table)
    typer.echo(
        f"{total} runs; a dashboard started anew for each page; warm: the median of {tries} calls after the first"
    )
    print_repeat()
