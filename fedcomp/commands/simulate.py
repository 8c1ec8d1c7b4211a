"""``fedcomp simulate``: a whole federation on this machine, safely."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from dashboard.schemas import RunDetail
from dashboard.store import RunStore
from fedcomp.commands.interrupts import sigterm_as_interrupt
from fedcomp.commands.preflight import preflight
from fedcomp.commands.program import program
from fedcomp.commands.progress import RunProgress
from fedcomp.commands.resources import plan_resources
from fedcomp.commands.resumed import find_resumed, settings_of
from fedcomp.commands.tables import print_table, rounds_table
from fedcomp.config import Value
from fedcomp.errors import ConfigError
from fedcomp.home import database_url, home, logs_dir
from fedcomp.resume import check_same_run
from fedcomp.run_config import RunConfig
from fedcomp.simulation import SimulationFailed
from fedcomp.simulation import simulate as run_simulation
from fedcomp.superlink import tail

DEFAULT_CLIENTS = 10
FLOAT32_BITS = 32.0


def simulate(
    clients: Annotated[
        int | None, typer.Option(min=1, help="Number of simulated clients; 10, or what the resumed run has.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option(help="Go on with a run: its id or the start of it, its name, or 'latest'.")
    ] = None,
    compressor: Annotated[str | None, typer.Option(help="Compressor of the uplink, such as eden:bits=2.")] = None,
    rounds: Annotated[int | None, typer.Option(min=1, help="Number of rounds.")] = None,
    task: Annotated[str | None, typer.Option(help="What is trained, such as emnist.")] = None,
    name: Annotated[str | None, typer.Option(help="A name to find the run by.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Fixes data, initial model, cohorts and rotations.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file with settings of the run.")] = None,
    run_config: Annotated[
        list[str] | None, typer.Option("--run-config", "-c", help="key=value in TOML; may be given several times.")
    ] = None,
) -> None:
    """Simulate a federation on this machine and print what each round brought.

    Flower gets its own SuperLink, ports and FLWR_HOME, which end with the command; nothing is installed or reported.
    Settings are taken from --config, then --run-config, then the options; docs/configuration.md lists them all.
    """
    options = {
        "compressor": compressor,
        "num-server-rounds": rounds,
        "task": task,
        "name": name,
        "seed": seed,
        "log-level": log_level,
    }
    settings = {**_from_file(config), **_from_pairs(run_config or [])}
    settings |= {key: value for key, value in options.items() if value is not None}
    run: RunDetail | None = None
    if resume is not None:
        run, parts = find_resumed(resume)
        settings = {**settings_of(run), **settings}
        clients = clients or parts
    checked = RunConfig.from_mapping(settings)  # wrong settings are told at once, not after Flower has started
    if run is not None:
        check_same_run(run.id, run.config, checked)
    clients = clients or DEFAULT_CLIENTS
    resources, told = plan_resources(preflight(settings, clients=clients), clients, cpu_count=os.cpu_count() or 1)

    console = Console()
    console.print(f"records in {home()}", soft_wrap=True, highlight=False)
    console.print(told)
    with RunStore(database_url()) as store, RunProgress(store, console) as progress, sigterm_as_interrupt():
        started: list[str] = []
        try:
            flower_run_id = run_simulation(
                settings, resources, log_dir=logs_dir(), on_start=started.append, on_poll=progress.poll
            )
        except (KeyboardInterrupt, SimulationFailed) as error:
            run = store.find_by_flower_run(started[0]) if started else None
            _close_run(store, run, error)
            if isinstance(error, KeyboardInterrupt):
                typer.echo("interrupted; the SuperLink is stopped and the run marked as cancelled", err=True)
                raise typer.Exit(130) from error
            raise SimulationFailed(_cause(error, run)) from error
        run = store.find_by_flower_run(flower_run_id)
    if run is None:
        raise SimulationFailed(f"Flower completed run {flower_run_id}, but {database_url()} has no record of it")
    print_table(rounds_table(run))
    print_verdict(run)


def print_verdict(run: RunDetail) -> None:
    """Print the last lines: what data, how well, how much smaller, where to look next."""
    typer.echo(f"data: {run.data_label}")
    if run.last_accuracy is not None:
        typer.echo(f"accuracy on held-out data after round {run.rounds_done}: {run.last_accuracy:.4f}")
    sent = run.total_uplink_payload_bytes
    if run.mean_bits_per_coordinate:
        factor = FLOAT32_BITS / run.mean_bits_per_coordinate
        typer.echo(f"compare with `{program()} simulate --compressor identity`, then list all with `{program()} runs`")
        typer.echo(
            f"uplink {sent / 1e6:.2f} MB instead of {sent * factor / 1e6:.2f} MB: {factor:.1f}x smaller than float32; "
            f"see `{program()} show {run.id}`"
        )


def _cause(error: SimulationFailed, run: RunDetail | None) -> str:
    """Say why the run failed: in its own words when it could record them, else with the end of its log."""
    log = f"; its log is {error.log_path}" if error.log_path else ""
    if run is not None and run.error:
        return f"run {run.id} failed: {run.error}\n({error}{log})"
    end = f":\n{tail(error.log_path, 25)}" if error.log_path else ""
    return f"{error}{log}{end}"


def _close_run(store: RunStore, run: RunDetail | None, error: BaseException) -> None:
    """Close the run's record: a server app that was killed could not do so itself."""
    if run is not None and run.status in ("queued", "running"):
        if isinstance(error, KeyboardInterrupt):
            store.finish_run(run.id, "cancelled", "interrupted")
        else:
            store.finish_run(run.id, "failed", str(error).splitlines()[0])


def _from_file(path: Path | None) -> Mapping[str, Value]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"--config {path}: {error}; give a TOML file of key = value lines") from error


def _from_pairs(pairs: list[str]) -> Mapping[str, Value]:
    settings: dict[str, Value] = {}
    for pair in pairs:
        try:
            settings |= tomllib.loads(pair)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"--run-config {pair!r}: {error}; write key=value in TOML, strings in quotes") from error
    return settings
