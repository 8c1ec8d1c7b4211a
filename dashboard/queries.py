"""Reading runs: each function maps rows of one open session to schemas and writes nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel
from sqlalchemy import Select, and_, case, func, select
from sqlalchemy.orm import Session, aliased

from dashboard.errors import AmbiguousRun, RunNotFound
from dashboard.models import Base, ClientRound, Round, Run
from dashboard.schemas import ClientResult, RoundDetail, RunDetail, RunSummary

LATEST = "latest"
_NAN = math.nan  # `column != _NAN` is SQL: ExactFloat makes it leave NaN out on every database
_ROLLED_BACK = "rolled-back"
_NO_ROUNDS: dict[str, Any] = {
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


def summaries(session: Session, runs: Sequence[Run]) -> list[RunSummary]:
    """Return the summaries of `runs`, in their order; one query, whatever their number."""
    totals = _totals(session, [run.id for run in runs])
    return [RunSummary(**_fields(RunSummary, run), **totals.get(run.id, _NO_ROUNDS)) for run in runs]


def detail(session: Session, run: Run) -> RunDetail:
    """Return everything the database knows about `run`."""
    totals = _totals(session, [run.id]).get(run.id, _NO_ROUNDS)
    return RunDetail(**_fields(RunDetail, run), **totals, rounds=tuple(rounds_after(session, run.id, -1)))


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


def _totals(session: Session, run_ids: Sequence[str]) -> dict[str, dict[str, Any]]:
    later = aliased(Round)
    last_accuracy = (
        select(later.accuracy)
        .where(later.run_id == Round.run_id, later.accuracy.is_not(None), later.status != _ROLLED_BACK)
        .order_by(later.round_index.desc())
        .limit(1)
        .scalar_subquery()
    )
    has_accuracy = and_(Round.accuracy != _NAN, Round.status != _ROLLED_BACK)
    has_rate = Round.bits_per_coordinate != _NAN
    payload_bits = func.sum(case((has_rate, Round.bits_per_coordinate * Round.clients), else_=0.0))
    payloads = func.sum(case((has_rate, Round.clients), else_=0))
    query = select(
        Round.run_id,
        func.sum(case((Round.round_index > 0, 1), else_=0)).label("rounds_done"),
        last_accuracy.label("last_accuracy"),
        func.max(case((has_accuracy, Round.accuracy))).label("best_accuracy"),
        func.sum(Round.uplink_payload_bytes).label("total_uplink_payload_bytes"),
        func.sum(Round.downlink_payload_bytes).label("total_downlink_payload_bytes"),
        (payload_bits / func.nullif(payloads, 0)).label("mean_bits_per_coordinate"),
    )
    rows = session.execute(query.where(Round.run_id.in_(run_ids)).group_by(Round.run_id)).mappings()
    return {row["run_id"]: {name: row[name] for name in _NO_ROUNDS} for row in rows}


def _fields(schema: type[BaseModel], row: Base) -> dict[str, Any]:
    return {name: getattr(row, name) for name in schema.model_fields if hasattr(row, name)}
