"""Fewer points that look the same: the ends and the extremes stay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def thin(values: Sequence[float] | npt.NDArray[np.float64], max_points: int) -> list[int]:
    """Return which of `values` to draw, in order: all of them, or at most `max_points` (5 or more).

    First and last are kept. The ones between are cut into equal buckets, and each keeps its least, its greatest and, if
    it has one that is not finite, the first of those: a spike or a NaN is never lost.
    """
    numbers = np.asarray(values, dtype=np.float64)
    count = numbers.size
    max_points = max(max_points, 5)
    if count <= max_points:
        return list(range(count))
    finite = np.isfinite(numbers)
    buckets = (max_points - 2) // (2 if finite.all() else 3)
    width = -(-(count - 2) // buckets)
    # One row a bucket; the last one is filled up with points that are neither finite nor there.
    between = np.full(buckets * width, np.nan)
    between[: count - 2] = numbers[1:-1]
    real = np.zeros(buckets * width, dtype=np.bool_)
    real[: count - 2] = True
    table, good = between.reshape(buckets, width), np.isfinite(between).reshape(buckets, width)
    odd = real.reshape(buckets, width) & ~good
    starts = 1 + width * np.arange(buckets)
    least = np.where(good, table, np.inf).argmin(axis=1)
    greatest = np.where(good, table, -np.inf).argmax(axis=1)
    some, strange = good.any(axis=1), odd.any(axis=1)
    kept = [0, count - 1]
    kept += (starts + least)[some].tolist() + (starts + greatest)[some].tolist()
    kept += (starts + odd.argmax(axis=1))[strange].tolist()
    return sorted(set(kept))
