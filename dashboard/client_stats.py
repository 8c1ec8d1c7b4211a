"""What each client did in each run, in sums that can be added up over runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter
from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import Session

from dashboard.models import ClientRound, RunDigest

_NAN = math.nan
_MEANS = {
    "bits": ClientRound.bits_per_coordinate,
    "bits_asked": ClientRound.bits_asked,
    "train_seconds": ClientRound.train_seconds,
    "encode_seconds": ClientRound.encode_seconds,
    "uplink_mbps": ClientRound.uplink_mbps_estimate,
}


class ClientStats(BaseModel):
    """One client in one run; `sums` and `counts` are over accepted updates with the measurement."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")

    client: str
    rounds: int
    applied: int
    rejected: int
    late: int
    payload_bytes: int
    sums: Mapping[str, float]
    counts: Mapping[str, int]
    max_train_seconds: float | None
    devices: tuple[str, ...]
    reject_reasons: Mapping[str, int]


_LIST = TypeAdapter(list[ClientStats])


def to_json(stats: list[ClientStats]) -> str:
    """Return text that holds all of it, NaN and infinities too."""
    return _LIST.dump_json(stats).decode()


def stats_of(session: Session, run_ids: Sequence[str]) -> dict[str, list[ClientStats]]:
    """Return run id to what its clients did, from its digest where it has one."""
    stored = select(RunDigest.run_id, RunDigest.clients).where(RunDigest.run_id.in_(run_ids))
    found = {run_id: _LIST.validate_json(text) for run_id, text in session.execute(stored)}
    return found | measure_stats(session, [run_id for run_id in run_ids if run_id not in found])


def measure_stats(session: Session, run_ids: Sequence[str]) -> dict[str, list[ClientStats]]:
    """Return run id to what its clients did, added up from the rows, sorted by client."""
    found: dict[str, list[ClientStats]] = {run_id: [] for run_id in run_ids}
    if not found:
        return found
    row = ClientRound
    within = row.run_id.in_(list(found))
    reasons: dict[tuple[str, str], dict[str, int]] = {}
    devices: dict[tuple[str, str], list[str]] = {}
    query = select(row.run_id, row.client, row.reject_reason, func.count()).where(
        within, row.reject_reason.is_not(None)
    )
    for run_id, client, reason, count in session.execute(query.group_by(row.run_id, row.client, row.reject_reason)):
        reasons.setdefault((run_id, client), {})[str(reason)] = count
    used = select(row.run_id, row.client, row.device).where(within).distinct()
    for run_id, client, device in session.execute(used.order_by(row.run_id, row.client, row.device)):
        devices.setdefault((run_id, client), []).append(device)
    means = [(name, _accepted(column.expression)) for name, column in _MEANS.items()]
    sums = select(
        row.run_id,
        row.client,
        func.count().label("rounds"),
        _count("applied").label("applied"),
        _count("rejected").label("rejected"),
        _count("late").label("late"),
        func.sum(row.payload_bytes).label("payload_bytes"),
        func.max(_accepted(row.train_seconds.expression)).label("max_train_seconds"),
        *(func.sum(column).label(f"sum_{name}") for name, column in means),
        *(func.count(column).label(f"count_{name}") for name, column in means),
    )
    for item in session.execute(sums.where(within).group_by(row.run_id, row.client).order_by(row.client)).mappings():
        key = (item["run_id"], item["client"])
        found[item["run_id"]].append(
            ClientStats(
                client=item["client"],
                rounds=item["rounds"],
                applied=item["applied"],
                rejected=item["rejected"],
                late=item["late"],
                payload_bytes=int(item["payload_bytes"]),
                sums={name: item[f"sum_{name}"] or 0.0 for name in _MEANS},
                counts={name: item[f"count_{name}"] for name in _MEANS},
                max_train_seconds=item["max_train_seconds"],
                devices=tuple(devices.get(key, ())),
                reject_reasons=reasons.get(key, {}),
            )
        )
    return found


def _count(outcome: str) -> ColumnElement[int]:
    return func.sum(case((ClientRound.outcome == outcome, 1), else_=0))


def _accepted(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return case(((ClientRound.outcome == "applied") & (column != _NAN), column))
