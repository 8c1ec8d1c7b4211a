"""Comparing runs: curves, groups of curves, accuracy against cost, settings that differ, what clients did.

Every function maps rows of one open session to schemas and writes nothing. Ids that name no run are left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard import queries
from dashboard.downsample import thin
from dashboard.models import Run
from dashboard.schemas_compare import Cost, Curve, ParetoPoint, Value, XAxis, YAxis
from dashboard.series import series_of

_MB = 1e6


def curves(session: Session, run_ids: Sequence[str], x: XAxis, y: YAxis, *, max_points: int = 500) -> list[Curve]:
    """Return one curve a run, in the order of `run_ids`.

    At most about `max_points` points of each are kept: first, last, and the extremes between.
    Rounds that were rolled back keep their bytes and seconds, but have no accuracy or loss: their model is gone.
    """
    columns = (Run.id, Run.name, Run.compressor)
    runs = {run.id: run for run in session.execute(select(*columns).where(Run.id.in_(run_ids)))}
    found = series_of(session, list(runs))
    drawn = []
    for run_id in dict.fromkeys(run_ids):
        if run_id in runs:
            series = found[run_id][found[run_id][f"has_{y}"]]
            kept = series[thin(series[y], max_points)]
            drawn.append(
                Curve(
                    run_id=run_id,
                    name=runs[run_id].name,
                    compressor=runs[run_id].compressor,
                    round_indices=tuple(kept["round"].tolist()),
                    xs=tuple(kept[x].tolist()),
                    ys=tuple(kept[y].tolist()),
                )
            )
    return drawn


def pareto(
    session: Session, run_ids: Sequence[str], cost: Cost, value: Value, *, labels: Mapping[str, str] | None = None
) -> list[ParetoPoint]:
    """Return accuracy against cost, one point a group, cheapest first.

    Runs with the same entry in `labels` (run id to label; by default the compressor) are one group, such as seeds of
    one setting. Runs without accuracy or without bits are left out.
    """
    runs = session.scalars(select(Run).where(Run.id.in_(run_ids))).all()
    groups: dict[str, list[tuple[str, float, float]]] = {}
    for run in queries.summaries(session, runs):
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
    means = {label: (fmean(p for _, p, _ in runs), fmean(r for _, _, r in runs)) for label, runs in groups.items()}
    points = [
        ParetoPoint(
            label=label,
            run_ids=tuple(run_id for run_id, _, _ in runs),
            cost=means[label][0],
            cost_std=stdev(p for _, p, _ in runs) if len(runs) > 1 else None,
            value=means[label][1],
            value_std=stdev(r for _, _, r in runs) if len(runs) > 1 else None,
            on_frontier=not any(_dominates(other, means[label]) for other in means.values()),
        )
        for label, runs in groups.items()
    ]
    return sorted(points, key=lambda point: (point.cost, -point.value, point.label))


def _dominates(one: tuple[float, float], other: tuple[float, float]) -> bool:
    return one != other and one[0] <= other[0] and one[1] >= other[1]
