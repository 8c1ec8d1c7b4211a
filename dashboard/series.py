"""Measurements of a run, round by round, as one array: from its digest where it has ended, else from its rounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.models import Round, RunDigest

MEASURED = ("accuracy", "loss", "train_loss", "vnmse", "nmse", "bits", "downlink_bits")
SUMMED = ("uplink_mb", "total_mb", "seconds")
_MB = 1e6
_OF_THE_MODEL = 3  # the first so many of MEASURED
# One record a round. A measurement that was not made is told from one that is NaN by its `has_` field.
Series = npt.NDArray[np.void]
RECORD = np.dtype(
    [("round", "<i8")] + [(name, "<f8") for name in (*MEASURED, *SUMMED)] + [(f"has_{name}", "?") for name in MEASURED]
)


def series_of(session: Session, run_ids: Sequence[str]) -> dict[str, Series]:
    """Return run id to its series, in the order of rounds; a run without rounds has an empty one."""
    stored = select(RunDigest.run_id, RunDigest.series).where(RunDigest.run_id.in_(run_ids))
    found: dict[str, Series] = {run_id: np.frombuffer(packed, RECORD) for run_id, packed in session.execute(stored)}
    return found | measure_series(session, [run_id for run_id in run_ids if run_id not in found])


def measure_series(session: Session, run_ids: Sequence[str]) -> dict[str, Series]:
    """Return the series of runs as their rounds are now."""
    rows: dict[str, list[Sequence[Any]]] = {run_id: [] for run_id in run_ids}
    measured = (Round.accuracy, Round.loss, Round.train_loss, Round.vnmse, Round.nmse)
    rates = (Round.bits_per_coordinate, Round.downlink_bits_per_coordinate)
    paid = (Round.uplink_payload_bytes, Round.downlink_payload_bytes, Round.seconds)
    if rows:
        query = select(Round.run_id, Round.round_index, *measured, *rates, *paid, Round.status).where(
            Round.run_id.in_(list(rows))
        )
        for row in session.execute(query.order_by(Round.run_id, Round.round_index)):
            rows[row[0]].append(row)
    return {run_id: _packed(found) for run_id, found in rows.items()}


def _packed(rows: Sequence[Sequence[Any]]) -> Series:
    series = np.zeros(len(rows), RECORD)
    if not rows:
        return series
    _, indices, *measured, uplink, downlink, seconds, status = zip(*rows, strict=True)
    series["round"] = indices
    # A model that was rolled back is gone, and with it what it could do; its bytes were sent all the same.
    kept = np.array([word != "rolled-back" for word in status])
    for number, (name, values) in enumerate(zip(MEASURED, measured, strict=True)):
        there = np.array([value is not None for value in values])
        series[f"has_{name}"] = there & kept if number < _OF_THE_MODEL else there
        series[name] = [0.0 if value is None else value for value in values]
    sent, received = np.array(uplink, np.float64), np.array(downlink, np.float64)
    series["uplink_mb"] = np.cumsum(sent) / _MB
    series["total_mb"] = np.cumsum(sent + received) / _MB
    series["seconds"] = np.cumsum(np.array(seconds, np.float64))
    return series
