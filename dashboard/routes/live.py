"""Streams of events for pages that stay open."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import StreamingResponse

from dashboard import queries
from dashboard.rendering import address
from dashboard.services import Parts, reader
from dashboard.streams import News, list_events, run_events

router = APIRouter(dependencies=[Depends(reader)])
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}  # the latter is for nginx
_EVENT_ID = re.compile(r"-?[0-9]{1,18}")


@router.get("/runs/{run_id}/events", name="run_events")
def of_run(
    request: Request,
    parts: Parts,
    run_id: str,
    after: Annotated[int, Query(ge=-1, lt=2**63)] = -1,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Tell what is new in a run after round `after`, or after the last event that the browser had."""
    with parts.store.reading() as session:
        found = queries.resolve(session, run_id).id
    if last_event_id is not None and _EVENT_ID.fullmatch(last_event_id):
        after = max(int(last_event_id), -1)
    templates = request.app.state.templates

    def show(news: News) -> dict[str, Any]:
        context = {"run": news.summary, "url": lambda name, /, **given: address(request, name, **given)}
        rows = templates.get_template("parts/round_rows.html").render(rounds=news.rounds[::-1], **context)
        return {
            "head": templates.get_template("parts/run_head.html").render(**context),
            "rows": rows,
            "points": [
                {
                    "round": row.round_index,
                    "accuracy": _finite(row.accuracy),
                    "loss": _finite(row.loss),
                    "bits": _finite(row.bits_per_coordinate),
                    "downlink_bits": _finite(row.downlink_bits_per_coordinate),
                }
                for row in news.rounds
            ],
        }

    return StreamingResponse(
        run_events(parts, found, after, show), media_type="text/event-stream", headers=dict(_HEADERS)
    )


@router.get("/events", name="list_events")
def of_list(parts: Parts) -> StreamingResponse:
    """Tell whenever a run appears, goes, or gets further."""
    return StreamingResponse(list_events(parts), media_type="text/event-stream", headers=dict(_HEADERS))


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
