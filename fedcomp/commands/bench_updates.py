"""``fedcomp bench updates``: save what clients would send, to measure compressors on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from fedcomp.commands.bench_output import print_repeat


def updates(
    out: Annotated[Path, typer.Option(help="Folder for round-00020.safetensors and so on; made when missing.")],
    task: Annotated[str, typer.Option(help="Task spec, as in a run.")] = "emnist:examples-per-client=100",
    rounds: Annotated[
        list[int] | None, typer.Option("--round", min=1, help="Round to save an update of; may be given several times.")
    ] = None,
    clients: Annotated[int, typer.Option(min=1, help="Clients that train in every round.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Fixes model, data and order.")] = 1,
) -> None:
    """Train a task by federated averaging without compression and save one client's update of some rounds."""
    from safetensors.torch import save_file

    from fedcomp.bench.updates import UpdateSettings, collect_updates
    from fedcomp.tasks.registry import load_task

    wanted = sorted(rounds or [2, 20, 60])
    out.mkdir(parents=True, exist_ok=True)
    progress = Console(stderr=True)
    with Progress(console=progress, disable=not progress.is_interactive) as bar:
        step = bar.add_task("training", total=wanted[-1])
        for update in collect_updates(load_task(task), wanted, UpdateSettings(clients=clients, seed=seed)):
            bar.advance(step)
            if update.tensors:
                path = out / f"round-{update.round_index:05d}.safetensors"
                save_file({name: value.contiguous() for name, value in update.tensors.items()}, path)
                typer.echo(f"{path}: update of round {update.round_index}, {len(update.tensors)} tensors")
    print_repeat()
