"""The ``fedcomp`` command."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from fedcomp import __version__
from fedcomp.commands import (
    bench,
    compressors,
    coordinator,
    dashboard,
    data,
    export,
    recipe,
    report,
    runs,
    show,
    simulate,
    site,
    stop,
    sweep,
)
from fedcomp.errors import FedcompError

app = typer.Typer(
    name="fedcomp",
    help="Federated learning over slow links: compressed mean estimation on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("simulate")(simulate.simulate)
app.command("runs")(runs.runs)
app.command("show")(show.show)
app.command("stop")(stop.stop)
app.command("sweep")(sweep.sweep)
app.command("report")(report.report)
app.command("export")(export.export)
app.command("compressors")(compressors.compressors)
app.add_typer(coordinator.app, name="coordinator")
app.add_typer(dashboard.app, name="dashboard")
app.add_typer(data.app, name="data")
app.add_typer(bench.app, name="bench")
app.add_typer(recipe.app, name="recipe")
app.add_typer(site.app, name="site")


@app.callback(invoke_without_command=True)
def fedcomp(
    show_version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    """Federated learning over slow links: compressed mean estimation on Flower."""
    if show_version:
        typer.echo(f"fedcomp {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; errors that fedcomp raises on purpose are one line, not a traceback."""
    try:
        app()
    except FedcompError as error:
        typer.echo(f"fedcomp: {type(error).__name__}: {error}", err=True)
        sys.exit(1)
