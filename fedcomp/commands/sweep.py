"""``fedcomp sweep``: many runs from one file, resumable, some at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from dashboard.store import RunStore
from fedcomp.commands.interrupts import sigterm_as_interrupt
from fedcomp.commands.program import program
from fedcomp.commands.sweep_progress import SweepProgress, duration
from fedcomp.commands.tables import print_table
from fedcomp.errors import FedcompError
from fedcomp.home import database_url, home
from fedcomp.sweeps.cells import Cell, CellRecord, cells_of
from fedcomp.sweeps.data import prepare
from fedcomp.sweeps.estimate import Estimate, estimate
from fedcomp.sweeps.runner import Runner, hold_sweep
from fedcomp.sweeps.spec import Sweep, load_sweep, only_task
from fedcomp.sweeps.worker import check_engine


class SweepFailed(FedcompError):
    """Some cells of a sweep failed; the others are finished."""


def sweep(
    file: Annotated[Path, typer.Argument(help="The sweep file, such as examples/sweeps/quick.toml.")],
    engine: Annotated[
        str, typer.Option(help="in-process, or flower for a simulation of Flower's own for each run.")
    ] = "in-process",
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Runs at once; as many as cores and memory allow.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with real data: DIR/emnist and DIR/shakespeare, prepared when needed.")
    ] = None,
    task: Annotated[str | None, typer.Option(help="Only this one of the file's tasks.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List the runs and what they would take; run none.")
    ] = False,
) -> None:
    """Run every arm of a sweep on every task with every seed, and go on where an earlier call was ended.

    Each run is in the runs database as sweep/NAME/TASK/ARM/seed-N/clients-N. What they show together: fedcomp report.
    """
    wanted = load_sweep(file) if task is None else only_task(load_sweep(file), task)
    if data is not None:
        wanted = prepare(wanted, data)
    cells = list(cells_of(wanted))
    for cell in cells:
        checked = check_engine(engine, cell.settings)
    console = Console()
    console.print(f"records in {home()}", soft_wrap=True, highlight=False)
    with RunStore(database_url()) as store, SweepProgress(console) as progress:
        runner = Runner(
            store, cells, engine=checked, log_dir=home() / "logs", on_poll=progress.poll, on_end=progress.end
        )
        if dry_run or runner.waiting:
            costs = estimate(wanted)
            at_once = parallel or (costs.parallel() if checked == "in-process" else 1)
            if dry_run:
                print_table(_cells_table(runner.records))
            _say(console, wanted, runner, costs, parallel=at_once)
        if dry_run:
            return
        with hold_sweep(home() / "sweeps", wanted.name), sigterm_as_interrupt():
            try:
                done = runner.run(parallel=at_once) if runner.waiting else runner.progress
            except KeyboardInterrupt as error:
                typer.echo(f"interrupted; go on with `{program()} sweep {file}`", err=True)
                raise typer.Exit(130) from error
    if done.failed:
        lines = "\n".join(f"  {key}: {reason}" for key, reason in done.failed.items())
        raise SweepFailed(f"{len(done.failed)} of {done.cells} runs failed, begun again by the same command:\n{lines}")
    typer.echo(f"all {done.cells} runs are finished; see `{program()} report {file}`")


def _say(console: Console, wanted: Sweep, runner: Runner, costs: Estimate, *, parallel: int) -> None:
    """Say in one line what is to come, and which data it is."""
    for task in wanted.tasks:
        cost = costs.tasks[task.name]
        console.print(
            f"{task.name}: {cost.data_label}; {task.clients} clients, about {cost.examples:.0f} examples each, "
            f"dim {cost.dim:,}",
            soft_wrap=True,
            highlight=False,
        )
    left = [(cell, record.rounds_done) for cell, record in runner.waiting]
    need = max(cost.memory_bytes for cost in costs.tasks.values()) * min(parallel, max(1, len(left)))
    free = costs.machine.memory_bytes
    console.print(
        f"{len(left)} of {runner.progress.cells} runs to do, {parallel} at a time: about "
        f"{duration(costs.seconds(left, parallel=parallel))} on {costs.machine.cores} cores, "
        f"{need / 1e9:.1f} GB of memory" + ("" if free is None else f" of {free / 1e9:.1f} GB that are free"),
        soft_wrap=True,
        highlight=False,
    )


def _cells_table(records: list[tuple[Cell, CellRecord]]) -> Table:
    table = Table()
    for column in ("task", "arm", "compressor", "seed", "clients", "rounds", "done", "status"):
        table.add_column(column, justify="right" if column in ("seed", "clients", "rounds", "done") else "left")
    for cell, record in records:
        numbers = (str(cell.seed), str(cell.task.clients), str(cell.rounds), str(record.rounds_done))
        table.add_row(cell.task.name, cell.arm.name, str(cell.settings["compressor"]), *numbers, record.status)
    return table
