"""``fedcomp recipe``: what the options of local training cost and save on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from enum import Enum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from fedcomp.commands.bench_output import print_repeat
from fedcomp.commands.tables import print_table
from fedcomp.seeds import SEED_LIMIT

if TYPE_CHECKING:
    from fedcomp.bench.recipe import RecipeResult

app = typer.Typer(help="Local training on small GPUs and CPUs.", no_args_is_help=True)
_COLUMNS = ("model", "option", "at once", "memory", "× plain", "estimate", "step", "× plain")


class Model(Enum):
    """What is trained."""

    EMNIST = "emnist"
    TRANSFORMER = "transformer"


@app.callback()
def recipe() -> None:
    """Local training on small GPUs and CPUs."""


@app.command("bench")
def bench(
    model: Annotated[list[Model] | None, typer.Option(help="May be given twice; by default both.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Steps of each option that are timed; the median counts.")] = 3,
    threads: Annotated[int, typer.Option(min=1, help="CPU threads of torch; one is disturbed least.")] = 1,
    device: Annotated[str, typer.Option(help="auto (a GPU when there is one), cpu or cuda.")] = "auto",
    seed: Annotated[int, typer.Option(min=0, max=SEED_LIMIT - 1, help="Fixes weights, data and order.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Measure peak memory and time of a training step with each option, against the plain step."""
    from fedcomp.bench.recipe import measure
    from fedcomp.bench.speed import choose_device, cpu_threads

    names = [item.value for item in model or Model]
    place = choose_device(device)
    progress = Console(stderr=True)
    with cpu_threads(threads):
        rounds = track(names, "measuring", console=progress, disable=not progress.is_interactive)
        results = [item for name in rounds for item in measure(name, repeats=repeats, seed=seed, device=place)]
    if as_json:
        typer.echo(json.dumps([asdict(item) for item in results], indent=1))
        return
    print_table(_table(results))
    first = results[0]
    typer.echo(
        f"device: {first.device}; CPU threads: {first.threads}; torch {first.torch_version}; "
        f"medians of {repeats} steps of each, in turn; ratios on a CPU are of processor time"
    )
    typer.echo("memory: the most that a step takes beside the model; estimate: what is expected before the start")
    print_repeat()


def _table(results: Iterable[RecipeResult]) -> Table:
    table = Table()
    for column in _COLUMNS:
        table.add_column(column, justify="left" if column in ("model", "option") else "right")
    for item in results:
        table.add_row(
            f"{item.model}, {item.parameters / 1e6:.1f} M",
            item.option,
            f"{item.micro_batch_size} of {item.batch_size}",
            "–" if item.peak_bytes is None else f"{item.peak_bytes / 1e6:,.0f} MB",
            "–" if item.memory_ratio is None else f"{item.memory_ratio:.2f}",
            f"{item.estimated_bytes / 1e6:,.0f} MB",
            f"{item.seconds * 1000:,.0f} ms",
            f"{item.time_ratio:.2f}",
        )
    return table
