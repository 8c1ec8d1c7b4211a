"""The Compare page's numbers: which group of runs reaches an accuracy for the fewest bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev

from pydantic import BaseModel, ConfigDict
from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard import queries
from dashboard.compare import curves, pareto
from dashboard.groups import group_curves, group_labels
from dashboard.models import Run
from dashboard.run_list import list_runs
from dashboard.schemas import RunSummary
from dashboard.schemas_compare import Curve, GroupCurve, ParetoPoint
from dashboard.targets import reached
from dashboard.view_state import MOST_RUNS, ViewState

_DEFAULT_SHARE = 0.95
_MOST_POINTS = 500
_FEWEST_POINTS = 100
_ALL_POINTS = 40_000


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, ser_json_inf_nan="strings")


class GroupRow(_Frozen):
    """One group of runs in figures; means over its runs, sample standard deviations where it has two or more.

    `to_target_bytes` is the mean over the `reached` runs that reached the target, of what was sent both ways.
    """

    label: str
    run_ids: tuple[str, ...]
    bits: float | None
    total_bytes: float
    best: float | None
    best_std: float | None
    final: float | None
    final_std: float | None
    reached: int
    to_target_bytes: float | None
    on_frontier: bool


class Comparison(_Frozen):
    """Everything that the Compare page draws; of `curves` and `means` the ones that `lines` asks for."""

    target: float | None
    groups: tuple[GroupRow, ...]
    curves: tuple[Curve, ...]
    means: tuple[GroupCurve, ...]
    pareto: tuple[ParetoPoint, ...]


def chosen_runs(session: Session, view: ViewState) -> list[RunSummary]:
    """Return the picked runs, or without any the newest that fit the filters."""
    if view.run:
        found = {run.id: run for run in session.scalars(select(Run).where(Run.id.in_(view.run)))}
        return queries.summaries(session, [found[run_id] for run_id in dict.fromkeys(view.run) if run_id in found])
    return list(list_runs(session, view.run_filter(), limit=MOST_RUNS).runs)


def compare_runs(session: Session, view: ViewState, runs: Sequence[RunSummary], *, drawn: bool) -> Comparison:
    """Return the comparison of `runs`; with its curves only where it is `drawn`."""
    ids = [run.id for run in runs]
    labels = group_labels(session, ids, view.group)
    points = pareto(runs, view.cost, view.value, labels=labels)
    target = view.target if view.target is not None else _default_target(runs)
    lines = curves(session, ids, view.x, view.y, max_points=_points(len(ids))) if drawn else []
    means = view.lines == "mean"
    return Comparison(
        target=target,
        groups=_rows(session, runs, labels, target, {point.label for point in points if point.on_frontier}),
        curves=() if means else tuple(lines),
        means=tuple(group_curves(lines, labels)) if means else (),
        pareto=tuple(points),
    )


def _points(runs: int) -> int:
    # A screen is not wider; and many curves are to stay quick to send and to draw.
    return max(_FEWEST_POINTS, min(_MOST_POINTS, _ALL_POINTS // max(runs, 1)))


def _default_target(runs: Sequence[RunSummary]) -> float | None:
    best = [run.best_accuracy for run in runs if run.best_accuracy is not None and math.isfinite(run.best_accuracy)]
    return math.floor(max(best) * _DEFAULT_SHARE * 1000) / 1000 if best else None


def _rows(
    session: Session, runs: Sequence[RunSummary], labels: dict[str, str], target: float | None, frontier: set[str]
) -> tuple[GroupRow, ...]:
    groups: dict[str, list[RunSummary]] = {}
    for run in runs:
        groups.setdefault(labels[run.id], []).append(run)
    prices = {} if target is None else reached(session, [run.id for run in runs], target)
    rows = []
    for label, members in groups.items():
        best, best_std = _mean([run.best_accuracy for run in members])
        final, final_std = _mean([run.last_accuracy for run in members])
        paid = [float(prices[run.id].total_bytes) for run in members if run.id in prices]
        rows.append(
            GroupRow(
                label=label,
                run_ids=tuple(run.id for run in members),
                bits=_mean([run.mean_bits_per_coordinate for run in members])[0],
                total_bytes=fmean(run.total_uplink_payload_bytes + run.total_downlink_payload_bytes for run in members),
                best=best,
                best_std=best_std,
                final=final,
                final_std=final_std,
                reached=len(paid),
                to_target_bytes=fmean(paid) if paid else None,
                on_frontier=label in frontier,
            )
        )
    # Who reaches the target with all its runs comes first, the cheapest first.
    rows.sort(key=lambda row: (row.to_target_bytes is None, row.reached < len(row.run_ids), row.to_target_bytes or 0.0))
    return tuple(rows)


def _mean(values: Sequence[float | None]) -> tuple[float | None, float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return None, None
    if not all(math.isfinite(value) for value in known):
        return math.nan, None
    return fmean(known), stdev(known) if len(known) > 1 else None
