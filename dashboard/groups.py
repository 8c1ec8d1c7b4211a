"""Runs put into groups by what they share, and the mean curve of each group."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import JsonValue
from sqlalchemy import select
from sqlalchemy.orm import Session

from dashboard.models import Run
from dashboard.schemas_compare import ConfigDifference, Curve, GroupCurve

_COLUMNS = ("compressor", "task", "strategy", "seed", "name", "num_rounds")


def group_labels(session: Session, run_ids: Sequence[str], key: str) -> dict[str, str]:
    """Return run id to label: the value of a config key, or of a column such as ``compressor`` or ``name``.

    Runs without the key are labelled ``(none)``.
    """
    labels = {}
    columns = (getattr(Run, name) for name in ("id", "config", *_COLUMNS))
    for run in session.execute(select(*columns).where(Run.id.in_(run_ids))):
        flat = flat_config(run.config)
        value: Any = flat[key] if key in flat else getattr(run, key, None) if key in _COLUMNS else None
        labels[run.id] = "(none)" if value is None else value if isinstance(value, str) else json.dumps(value)
    return labels


def group_curves(curves: Sequence[Curve], labels: Mapping[str, str], *, max_points: int = 500) -> list[GroupCurve]:
    """Return mean and sample standard deviation of the curves that share a label, in the order of first appearance.

    The grid of a group is the union of its curves' xs, at most `max_points` of them. A curve counts from its first to
    its last x.
    """
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(labels.get(curve.run_id, "(none)"), []).append(curve)
    return [_mean_curve(label, members, max_points) for label, members in groups.items()]


def config_diff(session: Session, run_ids: Sequence[str]) -> list[ConfigDifference]:
    """Return the settings in which runs differ, sorted by key; nested ones are written ``outer.inner``."""
    rows = session.execute(select(Run.id, Run.config).where(Run.id.in_(run_ids)))
    flat = {run_id: flat_config(config) for run_id, config in rows}
    found = []
    for key in sorted({key for config in flat.values() for key in config}):
        values = {run_id: config[key] for run_id, config in flat.items() if key in config}
        if len(values) < len(flat) or len({json.dumps(value, sort_keys=True) for value in values.values()}) > 1:
            found.append(ConfigDifference(key=key, values=values))
    return found


def flat_config(config: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return nested mappings as one, with keys ``outer.inner``."""
    flat: dict[str, JsonValue] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{inner}": item for inner, item in flat_config(value).items()}
        else:
            flat[key] = value
    return flat


def _mean_curve(label: str, members: Sequence[Curve], max_points: int) -> GroupCurve:
    finite = []
    for curve in members:
        xs, ys = np.asarray(curve.xs, dtype=np.float64), np.asarray(curve.ys, dtype=np.float64)
        good = np.isfinite(xs) & np.isfinite(ys)
        if good.any():
            finite.append((xs[good], ys[good]))
    grid = np.unique(np.concatenate([xs for xs, _ in finite])) if finite else np.empty(0)
    if grid.size > max_points:
        grid = grid[np.unique(np.linspace(0, grid.size - 1, max_points).round().astype(np.int64))]
    table = np.full((len(finite), grid.size), np.nan)
    for row, (xs, ys) in enumerate(finite):
        inside = (grid >= xs[0]) & (grid <= xs[-1])
        table[row, inside] = np.interp(grid[inside], xs, ys)
    count = np.isfinite(table).sum(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):  # a loss may be 1e300
        mean = np.nansum(table, axis=0) / np.maximum(count, 1)
        spread = np.sqrt(np.nansum((table - mean) ** 2, axis=0) / np.maximum(count - 1, 1))
    return GroupCurve(
        label=label,
        run_ids=tuple(curve.run_id for curve in members),
        xs=tuple(grid.tolist()),
        mean=tuple(mean.tolist()),
        std=tuple(s if n > 1 else None for s, n in zip(spread.tolist(), count.tolist(), strict=True)),
        count=tuple(count.tolist()),
    )
