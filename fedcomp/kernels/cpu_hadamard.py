"""The Hadamard transform of one block in place, with the additions of ``fedcomp.transforms.hadamard`` in its order.

There a block of n = a·b is transformed along the columns of its a×b matrix first, strides b … n/2, then along the rows,
strides 1 … b/2. Several stages are done each time that the block is gone through.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.kernels.cpu_jit import jit
from fedcomp.kernels.cpu_vectors import (
    LANES,
    butterflies_2,
    butterflies_4,
    butterflies_8,
    butterflies_16,
    neighbours_16,
    neighbours_32,
    neighbours_64,
    neighbours_128,
    neighbours_256,
    signed_butterflies_16,
)

SMALLEST, LARGEST = 2**8, 2**18
"""Sizes that ``hadamard`` can do: a and b are from 16 to 512."""

Floats = NDArray[np.float32]


@jit
def hadamard(x: Floats, signs: Floats) -> None:
    """Multiply a block of n = 2^8…2^18 coordinates by its signs, shape (≥ n,), and by the Hadamard matrix, in place."""
    log_n = 0
    while 1 << log_n < x.size:
        log_n += 1
    log_a = log_n // 2
    b = x.size >> log_a
    for start in range(0, x.size, LANES * b):
        for place in range(start, start + b, LANES):
            signed_butterflies_16(x, place, b, signs)
    _stages(x, min(log_a, 8) - 4, 16 * b)
    _stages(x, max(log_a, 8) - 8, 256 * b)
    _rows(x, b)


@jit
def _rows(x: Floats, b: int) -> None:
    """Do the stages of strides 1 … b/2."""
    for start in range(0, x.size, min(b, 256)):
        if b == 16:
            neighbours_16(x, start)
        elif b == 32:
            neighbours_32(x, start)
        elif b == 64:
            neighbours_64(x, start)
        elif b == 128:
            neighbours_128(x, start)
        else:
            neighbours_256(x, start)
    if b == 512:
        _stages(x, 1, 256)


@jit
def _stages(x: Floats, count: int, stride: int) -> None:
    """Do ``count`` stages, up to four, of strides ``stride``, 2·``stride``, …."""
    for start in range(0, x.size if count else 0, stride << count):
        for place in range(start, start + stride, LANES):
            if count == 1:
                butterflies_2(x, place, stride)
            elif count == 2:
                butterflies_4(x, place, stride)
            elif count == 3:
                butterflies_8(x, place, stride)
            else:
                butterflies_16(x, place, stride)
