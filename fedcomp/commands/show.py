"""``fedcomp show``: one run, round by round or client by client."""

from __future__ import annotations

from typing import Annotated

import typer

from dashboard.schemas import RunDetail
from dashboard.store import RunStore
from fedcomp.commands.client_table import client_notes, client_totals, clients_table
from fedcomp.commands.program import program
from fedcomp.commands.tables import print_table, round_notes, rounds_table
from fedcomp.home import database_url, home


def show(
    run: Annotated[str, typer.Argument(help="A run's id or the start of it, its name, or 'latest'.")] = "latest",
    clients: Annotated[bool, typer.Option("--clients", help="Also show each client over the whole run.")] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON for programs, with every client of every round.")
    ] = False,
) -> None:
    """Show one run: rounds, clients, settings, where its checkpoint is."""
    with RunStore(database_url()) as store:
        found = store.find_run(run)
    if json:
        typer.echo(found.model_dump_json(indent=2))
        return
    print_table(rounds_table(found))
    for line in round_notes(found):
        typer.echo(line)
    if clients:
        totals = client_totals(found)
        print_table(clients_table(totals))
        for line in client_notes(totals):
            typer.echo(line)
    typer.echo(f"data: {found.data_label}")
    typer.echo(f"bytes: {_traffic(found)}")
    typer.echo(f"status: {_status(found)}")
    typer.echo(f"checkpoint: {found.checkpoint_path or 'none'}")
    typer.echo(f"records in {home()}")


def _traffic(run: RunDetail) -> str:
    up = sum(item.uplink_envelope_bytes for item in run.rounds)
    down = sum(item.downlink_envelope_bytes for item in run.rounds)
    return (
        f"{run.total_uplink_payload_bytes:,} up in payloads and {up:,} in envelopes, "
        f"{run.total_downlink_payload_bytes:,} down in payloads and {down:,} in envelopes"
    )


def _status(run: RunDetail) -> str:
    told = [run.error] if run.error else []
    if run.orphaned:
        seen = run.heartbeat_at or run.started_at or run.created_at
        told.append(
            f"no sign of life since {seen:%Y-%m-%d %H:%M:%S} UTC: its process is probably gone; "
            f"`{program()} simulate --resume {run.id}` takes it up again"
        )
    if run.stop_reason:
        told.append(f"stopped: {run.stop_reason}")
    elif run.stop_requested_at and run.shown_status in ("queued", "running"):
        told.append(f"asked to stop at {run.stop_requested_at:%Y-%m-%d %H:%M:%S} UTC, ends after the round in progress")
    return run.shown_status + (f" ({'; '.join(told)})" if told else "")
