"""Sorting by a small integer, in one pass to count and one to place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.kernels.cpu_jit import jit

Shorts = NDArray[np.int16]
Places = NDArray[np.int64]

_KEYS = 2**16


@jit
def _key(value: np.int16, floor: int) -> int:
    return _KEYS // 2 - (floor if value < floor else int(value))


@jit
def order_by_falling_class(classes: Shorts, floor: int, zero: int) -> Places:
    """Return the places of all but class ``zero``, from the highest class, equal ones as they come.

    A class below ``floor`` counts as ``floor``.
    """
    starts = np.zeros(_KEYS + 2, dtype=np.int64)
    kept = 0
    for place in range(len(classes)):
        if classes[place] != zero:
            starts[_key(classes[place], floor) + 1] += 1
            kept += 1
    for key in range(1, len(starts)):
        starts[key] += starts[key - 1]
    order = np.empty(kept, dtype=np.int64)
    for place in range(len(classes)):
        if classes[place] != zero:
            slot = _key(classes[place], floor)
            order[starts[slot]] = place
            starts[slot] += 1
    return order
