"""A run's page, and its files to take away."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse

from dashboard import queries
from dashboard.clients import client_summary
from dashboard.export import csv_lines, round_columns, rounds_of, run_json
from dashboard.logs import log_tail
from dashboard.rendering import render
from dashboard.services import Parts, Reader, reader
from dashboard.slow_clients import slow_clients

router = APIRouter()
_ROUNDS = 50


@router.get("/runs/{run_id}", name="run_page")
def page(
    request: Request,
    parts: Parts,
    access: Reader,
    run_id: str,
    every: Annotated[bool, Query(alias="all")] = False,
) -> HTMLResponse:
    """Show one run as it is now; the page then keeps itself up to date."""
    with parts.store.reading() as session:
        row = queries.resolve(session, run_id)
        run = queries.info(session, row)
        rounds = queries.round_rows(session, run.id, limit=10_000 if every else _ROUNDS, newest_first=True)
        clients = client_summary(session, [run.id])
    return render(
        request,
        "run.html",
        access=access,
        run=run,
        rounds=rounds,
        clients=clients,
        slow=slow_clients(clients),
        every=every,
        log=log_tail(run.flower_run_id),
    )


@router.get("/runs/{run_id}/rounds/{round_index}", name="round_clients")
def round_clients(
    request: Request, parts: Parts, access: Reader, run_id: str, round_index: Annotated[int, Path(ge=0, lt=2**63)]
) -> HTMLResponse:
    """Show what each client did in one round."""
    with parts.store.reading() as session:
        run = queries.info(session, queries.resolve(session, run_id))
        rounds = queries.round_rows(session, run.id, after=round_index - 1, limit=1)
        clients = queries.client_rows(session, run.id, round_index)
    return render(
        request, "round.html", access=access, run=run, round_index=round_index, rounds=rounds, clients=clients
    )


@router.get("/runs/{run_id}/export/{kind}", name="export_run", dependencies=[Depends(reader)])
def export_run(parts: Parts, run_id: str, kind: Literal["rounds.csv", "run.json"]) -> Response:
    """Send a run's rounds as CSV, or everything known about it as JSON."""
    with parts.store.reading() as session:
        found = queries.resolve(session, run_id).id
        if kind == "run.json":
            return _attachment(Response(run_json(session, found), media_type="application/json"), f"{found}.json")
    lines = csv_lines(round_columns(), rounds_of(parts.store, found))
    return _attachment(StreamingResponse(lines, media_type="text/csv"), f"{found}-rounds.csv")


def _attachment(response: Response, name: str) -> Response:
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
