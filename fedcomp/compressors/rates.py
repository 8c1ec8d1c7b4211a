"""Any rate as a total budget: which coordinates of a rotated block get how many bits.

After the rotation coordinates are exchangeable, so a rate between two integers needs no mask: the first k coordinates
of each block get one bit more than the rest. A rate code is the rate in 1/65,536 of a bit; its whole part is what every
coordinate gets, its fraction says k. Below one bit the rest gets nothing and decodes to zero.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.compressors.blocks import BlockPlan

Integers = NDArray[np.int64]

ONE_BIT = 65536
"""The rate code of one bit a coordinate."""

MAX_RATE = 8 * ONE_BIT
_STEP = 8


def split_block(size: int, rate: int) -> tuple[int, int]:
    """Return (low, k): every coordinate of a block has ``low`` bits, the first ``k`` one more; k is a multiple of 8.

    A block never goes empty, since what is not sent at all cannot be estimated without bias.
    """
    low, k = _split(np.array([size]), np.array([rate]))
    return int(low[0]), int(k[0])


def code_bytes(size: int, rate: int) -> int:
    """Return the bytes of one block's coordinates."""
    return int(code_bytes_each(np.array([size]), np.array([rate]))[0])


def code_bytes_each(sizes: Integers, rates: Integers) -> Integers:
    """Return ``code_bytes`` of each size at each rate code."""
    low, k = _split(sizes, rates)
    return (low * sizes + k) // 8


def total_code_bytes(plan: BlockPlan) -> int:
    """Return the bytes of all blocks' coordinates, each group at its rate."""
    return sum(group.count * code_bytes(group.size, group.rate) for group in plan.groups)


def _split(sizes: Integers, rates: Integers) -> tuple[Integers, Integers]:
    low, fraction = np.divmod(rates, ONE_BIT)
    k = fraction * sizes // (ONE_BIT * _STEP) * _STEP
    return low, np.where(low == 0, np.maximum(k, _STEP), k)
