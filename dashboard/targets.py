"""What an accuracy costs: payload bytes until a run first reaches it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pydantic import BaseModel, ConfigDict
from sqlalchemy.orm import Session

from dashboard.series import series_of

_MB = 1e6


class Reached(BaseModel):
    """When a run first reached an accuracy: the round, and the payload bytes sent both ways until its end."""

    model_config = ConfigDict(frozen=True)

    round_index: int
    total_bytes: int


def reached(session: Session, run_ids: Sequence[str], accuracy: float) -> dict[str, Reached]:
    """Return, for each run that reached `accuracy`, when it first did; rounds that were rolled back do not count."""
    found = {}
    for run_id, series in series_of(session, list(run_ids)).items():
        # Nothing is at least as large as NaN, so no round without a number counts.
        places = np.flatnonzero(series["has_accuracy"] & (series["accuracy"] >= accuracy))
        if places.size:
            first = series[places[0]]
            found[run_id] = Reached(
                round_index=int(first["round"]),
                total_bytes=round(float(first["total_mb"]) * _MB),
            )
    return found
