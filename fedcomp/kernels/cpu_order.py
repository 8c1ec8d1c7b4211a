"""Sorting by a small integer, in one pass to count and one to place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.kernels.cpu_jit import jit

Shorts = NDArray[np.int16]
Places = NDArray[np.int64]


@jit
def stable_order(keys: Shorts) -> Places:
    """Return the places of keys in increasing order, equal keys as they come; as a stable argsort does."""
    starts = np.zeros(65537, dtype=np.int64)
    for place in range(len(keys)):
        starts[np.int64(keys[place]) + 32769] += 1
    for key in range(1, len(starts)):
        starts[key] += starts[key - 1]
    order = np.empty(len(keys), dtype=np.int64)
    for place in range(len(keys)):
        bin_of_key = np.int64(keys[place]) + 32768
        order[starts[bin_of_key]] = place
        starts[bin_of_key] += 1
    return order
