"""``fedcomp report``: what a sweep's runs show together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dashboard.store import RunStore
from fedcomp.home import database_url, home
from fedcomp.sweeps.report import write_report
from fedcomp.sweeps.results import collect
from fedcomp.sweeps.saved import load_runs
from fedcomp.sweeps.spec import load_sweep


def report(
    sweep: Annotated[str, typer.Argument(help="A sweep's name, or its file, whose order the tables then have.")],
    runs: Annotated[
        list[Path] | None,
        typer.Option("--with", help="A runs.jsonl that an earlier report wrote, here or on another machine."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for report.md and its figures; SWEEP-report here.")] = None,
) -> None:
    """Write a Markdown table and figures of a sweep's finished runs, and the runs themselves as runs.jsonl."""
    saved = [run for path in runs or [] for run in load_runs(path)]
    wanted = load_sweep(Path(sweep)) if sweep.endswith(".toml") else None
    name = sweep if wanted is None else wanted.name
    with RunStore(database_url()) as store:
        result = collect(store, name, wanted, saved=saved)
    path = write_report(result, out or Path(f"{name}-report"))
    typer.echo(path.read_text(encoding="utf-8").partition("\n![")[0].rstrip())
    typer.echo(f"\nwritten to {path} with its figures; records in {home()}")
