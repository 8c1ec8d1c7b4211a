"""Comparing runs: their curves, and accuracy against cost."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.downsample import thin
from dashboard.models import Run
from dashboard.schemas import RunSummary
from dashboard.schemas_compare import Cost, Curve, ParetoPoint, Value, XAxis, YAxis
from dashboard.series import series_of

_MB = 1e6


def curves(session: Session, run_ids: Sequence[str], x: XAxis, y: YAxis, *, max_points: int = 500) -> list[Curve]:
    """Return one curve a run, in the order of `run_ids`; ids that name no run are left out.

    At most about `max_points` points of each are kept: first, last, and the extremes between.
    Rounds that were rolled back keep their bytes and seconds, but have no accuracy or loss: their model is gone.
    """
    columns = (Run.id, Run.name, Run.compressor)
    runs = {run.id: run for run in session.execute(select(*columns).where(Run.id.in_(run_ids)))}
    found = series_of(session, list(runs))
    drawn = []
    for run_id in dict.fromkeys(run_ids):
        if run_id in runs:
            series = found[run_id]
            # Only the fields that are drawn: whole records are ten times as long.
            measured = np.flatnonzero(series[f"has_{y}"])
            kept = measured[thin(series[y][measured], max_points)]
            drawn.append(
                Curve(
                    run_id=run_id,
                    name=runs[run_id].name,
                    compressor=runs[run_id].compressor,
                    round_indices=tuple(series["round"][kept].tolist()),
                    xs=tuple(series[x][kept].tolist()),
                    ys=tuple(series[y][kept].tolist()),
                )
            )
    return drawn


def pareto(
    runs: Sequence[RunSummary], cost: Cost, value: Value, *, labels: Mapping[str, str] | None = None
) -> list[ParetoPoint]:
    """Return accuracy against cost, one point a group, cheapest first.

    Runs with the same entry in `labels` (run id to label; by default the compressor) are one group, such as seeds of
    one setting. Runs without accuracy or without bits are left out.
    """
    groups: dict[str, list[tuple[str, float, float]]] = {}
    for run in runs:
        paid = {
            "bits": run.mean_bits_per_coordinate,
            "uplink_mb": run.total_uplink_payload_bytes / _MB,
            "total_mb": (run.total_uplink_payload_bytes + run.total_downlink_payload_bytes) / _MB,
        }[cost]
        reached = run.last_accuracy if value == "final" else run.best_accuracy
        if paid is None or reached is None or not math.isfinite(paid) or not math.isfinite(reached):
            continue
        label = run.compressor if labels is None else labels.get(run.id, run.compressor)
        groups.setdefault(label, []).append((run.id, paid, reached))
    means = {label: (fmean(p for _, p, _ in ones), fmean(r for _, _, r in ones)) for label, ones in groups.items()}
    points = [
        ParetoPoint(
            label=label,
            run_ids=tuple(run_id for run_id, _, _ in ones),
            cost=means[label][0],
            cost_std=stdev(p for _, p, _ in ones) if len(ones) > 1 else None,
            value=means[label][1],
            value_std=stdev(r for _, _, r in ones) if len(ones) > 1 else None,
            on_frontier=not any(_dominates(other, means[label]) for other in means.values()),
        )
        for label, ones in groups.items()
    ]
    return sorted(points, key=lambda point: (point.cost, -point.value, point.label))


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] <= other[0] and one[1] >= other[1]
