"""Who is slow, who is rejected, who sends how many bits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import Field
from starlette.responses import HTMLResponse

from dashboard.clients import client_summary
from dashboard.rendering import render
from dashboard.run_list import choices, list_runs
from dashboard.services import Parts, Reader
from dashboard.slow_clients import slow_clients
from dashboard.view_state import Filters

router = APIRouter()
_RUNS = 50


class _View(Filters):
    run: Annotated[str, Field(max_length=100)] = ""


@router.get("/clients", name="clients_page")
def page(
    request: Request,
    parts: Parts,
    access: Reader,
    filters: Annotated[_View, Query()],
) -> HTMLResponse:
    """Show clients over one run, or over the newest runs that fit the filters."""
    with parts.store.reading() as session:
        found = choices(session)
        listed = list_runs(session, filters.run_filter(), limit=_RUNS)
        ids = [filters.run] if filters.run else [each.id for each in listed.runs]
        clients = client_summary(session, ids)
    return render(
        request,
        "clients.html",
        access=access,
        filters=filters,
        run=filters.run,
        choices=found,
        listed=listed,
        clients=clients,
        slow=slow_clients(clients),
    )
