"""Reading runs: each function maps rows of one open session to schemas and writes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Select, and_, case, func, select
from sqlalchemy.orm import Session, aliased

from dashboard.column_types import UtcDateTime
from dashboard.errors import AmbiguousRun, RunNotFound
from dashboard.models import Base, ClientRound, Round, Run, RunDigest, RunTag
from dashboard.schemas import ClientResult, RoundDetail, RoundResult, RunDetail, RunInfo, RunSummary

LATEST = "latest"
# Writers give a sign of life far more often; without one for this long a machine is off or its network is down.
ORPHANED_AFTER = timedelta(minutes=5)
_NAN = math.nan  # `column != _NAN` is SQL: ExactFloat makes it leave NaN out on every database
_ROLLED_BACK = "rolled-back"
NO_ROUNDS: dict[str, Any] = {
    "rounds_done": 0,
    "last_accuracy": None,
    "best_accuracy": None,
    "total_uplink_payload_bytes": 0,
    "total_downlink_payload_bytes": 0,
    "mean_bits_per_coordinate": None,
}


def newest_first() -> Select[Run]:
    """Return the query for all runs, the newest first."""
    return select(Run).order_by(Run.created_at.desc(), Run.id.desc())


def resolve(session: Session, reference: str) -> Run:
    """Return the run that `reference` means: 'latest', an id, a name (newest wins), or the start of one id.

    What fits exactly goes before what fits in part.

    Raises
    ------
    RunNotFound
        Nothing fits, or `reference` is empty.
    AmbiguousRun
        Several ids begin with `reference`.
    """
    if not reference:
        raise RunNotFound(reference)
    if reference == LATEST:
        exact = session.scalars(newest_first().limit(1)).first()
    else:
        exact = session.get(Run, reference)
        exact = exact or session.scalars(newest_first().where(Run.name == reference).limit(1)).first()
    if exact is not None:
        return exact
    fitting = session.scalars(newest_first().where(Run.id.startswith(reference, autoescape=True))).all()
    if not fitting:
        raise RunNotFound(reference)
    if len(fitting) > 1:
        raise AmbiguousRun(reference, [run.id for run in fitting])
    return fitting[0]


def existing(session: Session, run_id: str, *, lock: bool = False) -> Run:
    """Return the run with exactly this id, its row locked on databases that lock rows. Raises ``RunNotFound``."""
    run = session.get(Run, run_id, with_for_update=lock)
    if run is None:
        raise RunNotFound(run_id)
    return run


def summaries(session: Session, runs: Sequence[Run]) -> list[RunSummary]:
    """Return the summaries of `runs`, in their order; three queries, whatever their number."""
    return [
        RunSummary(**_fields(RunSummary, run), **extra) for run, extra in zip(runs, _extras(session, runs), strict=True)
    ]


def detail(session: Session, run: Run) -> RunDetail:
    """Return everything the database knows about `run`."""
    (extra,) = _extras(session, [run])
    return RunDetail(**_fields(RunDetail, run), **extra, rounds=tuple(rounds_after(session, run.id, -1)))


def info(session: Session, run: Run) -> RunInfo:
    """Return everything about `run` but its rounds."""
    (extra,) = _extras(session, [run])
    return RunInfo(**_fields(RunInfo, run), **extra)


def round_rows(
    session: Session, run_id: str, *, after: int = -1, limit: int = 200, newest_first: bool = False
) -> list[RoundResult]:
    """Return at most `limit` rounds of a run with an index above `after`, without their clients.

    In order, or the last ones first.
    """
    order = Round.round_index.desc() if newest_first else Round.round_index
    query = select(Round).where(Round.run_id == run_id, Round.round_index > after).order_by(order).limit(limit)
    return [RoundResult(**_fields(RoundResult, row)) for row in session.scalars(query)]


def client_rows(session: Session, run_id: str, round_index: int) -> list[ClientResult]:
    """Return what each client did in one round, in the order of their names."""
    query = select(ClientRound).where(ClientRound.run_id == run_id, ClientRound.round_index == round_index)
    return [ClientResult(**_fields(ClientResult, row)) for row in session.scalars(query.order_by(ClientRound.client))]


def rounds_after(session: Session, run_id: str, after: int) -> list[RoundDetail]:
    """Return the rounds of a run whose index is greater than `after`, in order, each with its clients."""
    clients: dict[int, list[ClientResult]] = {}
    query = select(ClientRound).where(ClientRound.run_id == run_id, ClientRound.round_index > after)
    for row in session.scalars(query.order_by(ClientRound.round_index, ClientRound.client)):
        clients.setdefault(row.round_index, []).append(ClientResult(**_fields(ClientResult, row)))
    rounds = select(Round).where(Round.run_id == run_id, Round.round_index > after).order_by(Round.round_index)
    return [
        RoundDetail(**_fields(RoundDetail, row), client_results=tuple(clients.get(row.round_index, ())))
        for row in session.scalars(rounds)
    ]


def is_orphaned(now: datetime) -> ColumnElement[bool]:
    """Return the condition for runs that count as running and have given no sign of life for long."""
    # Runs of earlier releases have no heartbeat.
    seen = func.coalesce(Run.heartbeat_at, Run.started_at, Run.created_at, type_=UtcDateTime())
    return and_(Run.status == "running", seen < now - ORPHANED_AFTER)


def is_over(run: Run) -> bool:
    """Return whether a run writes no more: it has ended, or is orphaned."""
    return run.status not in ("queued", "running") or _gives_no_sign(run, datetime.now(UTC))


def _gives_no_sign(run: Run, now: datetime) -> bool:
    # The same as is_orphaned, of a row that is here already.
    return run.status == "running" and (run.heartbeat_at or run.started_at or run.created_at) < now - ORPHANED_AFTER


def mean_bits() -> Select[Any]:
    """Return the query for the mean bits per coordinate over accepted payloads of the rounds it is limited to."""
    return select(_mean_bits())


def _mean_bits() -> ColumnElement[Any]:
    has_rate = Round.bits_per_coordinate != _NAN
    payload_bits = func.sum(case((has_rate, Round.bits_per_coordinate * Round.clients), else_=0.0))
    payloads = func.sum(case((has_rate, Round.clients), else_=0))
    return payload_bits / func.nullif(payloads, 0)


def _extras(session: Session, runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return what summaries hold besides a run's own columns."""
    ids, now = [run.id for run in runs], datetime.now(UTC)
    totals = _totals(session, ids)
    tags: dict[str, list[str]] = {}
    for run_id, tag in session.execute(
        select(RunTag.run_id, RunTag.tag).where(RunTag.run_id.in_(ids)).order_by(RunTag.tag)
    ):
        tags.setdefault(run_id, []).append(tag)
    return [
        totals.get(run.id, NO_ROUNDS)
        | {
            "tags": tuple(tags.get(run.id, ())),
            "orphaned": _gives_no_sign(run, now),
        }
        for run in runs
    ]


def _totals(session: Session, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    columns = [getattr(RunDigest, name) for name in NO_ROUNDS]
    query = select(RunDigest.run_id, *columns).where(RunDigest.run_id.in_(run_ids))
    found = {row["run_id"]: {name: row[name] for name in NO_ROUNDS} for row in session.execute(query).mappings()}
    return found | live_totals(session, [run_id for run_id in run_ids if run_id not in found])


def live_totals(session: Session, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return run id to totals, added up from the rounds; runs without rounds are left out."""
    if not run_ids:
        return {}
    later = aliased(Round)
    last_accuracy = (
        select(later.accuracy)
        .where(later.run_id == Round.run_id, later.accuracy.is_not(None), later.status != _ROLLED_BACK)
        .order_by(later.round_index.desc())
        .limit(1)
        .scalar_subquery()
    )
    has_accuracy = and_(Round.accuracy != _NAN, Round.status != _ROLLED_BACK)
    query = select(
        Round.run_id,
        func.sum(case((Round.round_index > 0, 1), else_=0)).label("rounds_done"),
        last_accuracy.label("last_accuracy"),
        func.max(case((has_accuracy, Round.accuracy))).label("best_accuracy"),
        func.sum(Round.uplink_payload_bytes).label("total_uplink_payload_bytes"),
        func.sum(Round.downlink_payload_bytes).label("total_downlink_payload_bytes"),
        _mean_bits().label("mean_bits_per_coordinate"),
    )
    rows = session.execute(query.where(Round.run_id.in_(run_ids)).group_by(Round.run_id)).mappings()
    return {row["run_id"]: {name: row[name] for name in NO_ROUNDS} for row in rows}


def _fields(schema: type[BaseModel], row: Base) -> dict[str, Any]:
    return {name: getattr(row, name) for name in schema.model_fields if hasattr(row, name)}
