"""Server-sent events: what is new in a run, for as long as a browser listens."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import func, select
from starlette.concurrency import run_in_threadpool

from dashboard import queries
from dashboard.errors import RunNotFound
from dashboard.logs import log_stamp, log_tail
from dashboard.models import Round, Run
from dashboard.schemas import RoundResult, RunSummary
from dashboard.services import Services

_BATCH = 100
_WATCHED = 200
_STEP_SECONDS = 0.2


@dataclass(frozen=True)
class News:
    """A run as it is now, and its rounds after the last ones told."""

    summary: RunSummary
    rounds: Sequence[RoundResult]
    last_index: int


def event(name: str, data: Any, *, event_id: int | None = None) -> str:
    """Return one event as it is sent; `data` becomes one line of JSON."""
    head = "" if event_id is None else f"id: {event_id}\n"
    return f"{head}event: {name}\ndata: {json.dumps(data, allow_nan=False)}\n\n"


def look(services: Services, run_id: str, after: int) -> News:
    """Return what is new in a run. Raises ``RunNotFound``."""
    with services.store.reading() as session:
        run = queries.existing(session, run_id)
        (summary,) = queries.summaries(session, [run])
        rounds = queries.round_rows(session, run.id, after=after, limit=_BATCH)
        newest = queries.round_rows(session, run.id, limit=1, newest_first=True)
    return News(summary, rounds, newest[0].round_index if newest else -1)


async def run_events(
    services: Services, run_id: str, after: int, show: Callable[[News], dict[str, Any]]
) -> AsyncIterator[str]:
    """Yield the events of a run from the round after `after` on, until the server ends.

    ``rounds``: new rounds, with the last one's index as event id; ``run``: the run changed otherwise; ``log``: the end
    of its log, at first and whenever there is more; ``reset``: rounds that were told are gone, since the run was
    resumed from before them; ``gone``: the run was deleted. A comment is sent where nothing else was for the
    heartbeat's time.

    Parameters
    ----------
    show
        Maps news to what the browser gets.
    """
    yield "retry: 2000\n\n"
    before: str | None = None
    log_before: tuple[str, int, int] | None = None
    said = time.monotonic()
    while not services.closing.is_set():
        try:
            news = await run_in_threadpool(look, services, run_id, after)
        except RunNotFound:
            yield event("gone", {})
            return
        if news.last_index < after:
            yield event("reset", {}, event_id=news.last_index)
            return
        now = news.summary.model_dump_json()  # equal where a number is NaN, too
        changed = before is not None and now != before
        if news.rounds or changed or before is None:
            if news.rounds:
                after = news.rounds[-1].round_index
            yield event("rounds" if news.rounds else "run", show(news), event_id=after)
            said = time.monotonic()
        elif time.monotonic() - said > services.settings.heartbeat_seconds:
            yield ": still here\n\n"
            said = time.monotonic()
        before = now
        log_now = log_stamp(news.summary.flower_run_id)
        if log_now != log_before:
            text = await run_in_threadpool(log_tail, news.summary.flower_run_id)
            yield event("log", {"text": text or ""})
            said, log_before = time.monotonic(), log_now
        if len(news.rounds) < _BATCH:
            await _pause(services)


async def _pause(services: Services) -> None:
    """Wait until it is time to look again, or the server ends."""
    until = time.monotonic() + services.settings.poll_seconds
    while not services.closing.is_set() and (left := until - time.monotonic()) > 0:
        await asyncio.sleep(min(_STEP_SECONDS, left))


def fingerprint(services: Services) -> tuple[Any, ...]:
    """Return what differs once a run appears, goes, gets further, or has another name or state; three cheap queries."""
    with services.store.reading() as session:
        columns = (Run.id, Run.status, Run.name, Run.archived_at, queries.is_orphaned(datetime.now(UTC)))
        runs = session.execute(select(*columns).order_by(Run.created_at.desc()).limit(_WATCHED)).all()
        active = [run_id for run_id, status, *_ in runs if status == "running"]
        newest = session.execute(
            select(Round.run_id, func.max(Round.round_index)).where(Round.run_id.in_(active)).group_by(Round.run_id)
        ).all()
        total = session.scalar(select(func.count()).select_from(Run))
    return (total, tuple(tuple(row) for row in runs), tuple(sorted(tuple(row) for row in newest)))


async def list_events(services: Services) -> AsyncIterator[str]:
    """Yield an event ``runs`` whenever the runs' ``fingerprint`` is another one, until the server ends."""
    yield "retry: 2000\n\n"
    before = await run_in_threadpool(fingerprint, services)
    yield event("hello", {})
    said = time.monotonic()
    while not services.closing.is_set():
        await _pause(services)
        now = await run_in_threadpool(fingerprint, services)
        if now != before:
            yield event("runs", {})
            said = time.monotonic()
        elif time.monotonic() - said > services.settings.heartbeat_seconds:
            yield ": still here\n\n"
            said = time.monotonic()
        before = now
