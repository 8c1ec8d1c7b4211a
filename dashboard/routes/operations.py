"""For those who run the dashboard: is it well, and what does it count."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import get_args

from fastapi import APIRouter, Depends
from pydantic import BaseModel
from sqlalchemy import case, func, select, text
from starlette.responses import PlainTextResponse

from dashboard import queries
from dashboard.models import Run
from dashboard.schemas import ShownStatus
from dashboard.services import Parts, reader

router = APIRouter(tags=["operations"])
_MOST_RUNS = 100
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_RUN_GAUGES = (
    ("fedcomp_run_rounds", "Rounds done.", "rounds_done"),
    ("fedcomp_run_accuracy", "Latest test accuracy.", "last_accuracy"),
    ("fedcomp_run_bits_per_coordinate", "Mean bits per coordinate of accepted updates.", "mean_bits_per_coordinate"),
    ("fedcomp_run_uplink_payload_bytes", "Payload bytes from clients.", "total_uplink_payload_bytes"),
    ("fedcomp_run_downlink_payload_bytes", "Payload bytes to clients.", "total_downlink_payload_bytes"),
)


class Health(BaseModel):
    """That the dashboard answers and its database does."""

    status: str


@router.get("/healthz")
def healthz(parts: Parts) -> Health:
    """Say whether the database answers; nobody needs a token for that."""
    with parts.store.reading() as session:
        session.execute(text("SELECT 1"))
    return Health(status="ok")


@router.get("/metrics", response_class=PlainTextResponse, dependencies=[Depends(reader)])
def metrics(parts: Parts) -> PlainTextResponse:
    """Return counters and gauges in Prometheus' text format; single runs only while they run."""
    with parts.store.reading() as session:
        orphaned = queries.is_orphaned(datetime.now(UTC))
        shown = case((orphaned, "orphaned"), else_=Run.status).label("shown")
        statuses = session.execute(select(shown, func.count()).group_by("shown")).all()
        running = queries.newest_first().where(Run.status == "running", ~orphaned).limit(_MOST_RUNS)
        runs = queries.summaries(session, session.scalars(running).all())
    counts = dict.fromkeys(get_args(ShownStatus), 0) | {str(status): count for status, count in statuses}
    lines = [*_head("fedcomp_runs", "gauge", "Runs in the database.")]
    lines += [_sample("fedcomp_runs", {"status": status}, count) for status, count in counts.items()]
    for name, help_text, field in _RUN_GAUGES:
        lines += _head(name, "gauge", help_text)
        for run in runs:
            value = getattr(run, field)
            if value is not None:
                labels = {"run": run.id, "name": run.name, "task": run.task, "compressor": run.compressor}
                lines.append(_sample(name, labels, value))
    lines += _head("fedcomp_dashboard_requests_total", "counter", "Requests answered.")
    for (method, status), count in sorted(parts.requests.items()):
        lines.append(_sample("fedcomp_dashboard_requests_total", {"method": method, "status": str(status)}, count))
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4; charset=utf-8")


def _head(name: str, kind: str, help_text: str) -> Iterator[str]:
    yield f"# HELP {name} {help_text}"
    yield f"# TYPE {name} {kind}"


def _sample(name: str, labels: dict[str, str], value: float) -> str:
    inside = ",".join(f'{key}="{text_.translate(_ESCAPES)}"' for key, text_ in labels.items())
    shown = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}.get(str(value), str(value))
    return f"{name}{{{inside}}} {shown}" if inside else f"{name} {shown}"
