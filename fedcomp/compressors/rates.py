"""Any rate as a total budget: which coordinates of a rotated block get how many bits.

After the rotation coordinates are exchangeable, so a rate between two integers needs no mask: the first k coordinates
of each block get one bit more than the rest. A rate code is the rate in 1/65,536 of a bit; its whole part is what every
coordinate gets, its fraction says k. Below one bit the rest gets nothing and decodes to zero.
"""

from __future__ import annotations

from fedcomp.compressors.blocks import BlockPlan, at_rate

ONE_BIT = 65536
"""The rate code of one bit a coordinate."""

MAX_RATE = 8 * ONE_BIT
_STEP = 8


def split_block(size: int, rate: int) -> tuple[int, int]:
    """Return (low, k): every coordinate of a block has ``low`` bits, the first ``k`` one more; k is a multiple of 8.

    A block never goes empty, since what is not sent at all cannot be estimated without bias.
    """
    low, fraction = divmod(rate, ONE_BIT)
    k = fraction * size // (ONE_BIT * _STEP) * _STEP
    return low, max(k, _STEP) if low == 0 else k


def code_bytes(size: int, rate: int) -> int:
    """Return the bytes of one block's coordinates."""
    low, k = split_block(size, rate)
    return (low * size + k) // 8


def total_code_bytes(plan: BlockPlan) -> int:
    """Return the bytes of all blocks' coordinates, each group at its rate."""
    return sum(group.count * code_bytes(group.size, group.rate) for group in plan.groups)


def choose_rate(plan: BlockPlan, *, room: int) -> int:
    """Return the highest rate code at which the coordinates of all blocks fit into ``room`` bytes.

    Where nothing fits, the lowest rate is returned: at least eight coordinates of each block are always sent.
    """
    low, high = 0, MAX_RATE
    while low < high:
        middle = (low + high + 1) // 2
        if total_code_bytes(at_rate(plan, middle)) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def captured_share(plan: BlockPlan, distortion: dict[int, float]) -> float:
    """Return the expected share of a rotated vector's energy that its quantized coordinates keep, Σ(1−D)/n."""
    kept = 0.0
    for group in plan.groups:
        low, k = split_block(group.size, group.rate)
        of_high = 1 - distortion[low + 1] if k else 0.0
        kept += group.count * (k * of_high + (group.size - k) * (1 - distortion[low]))
    return kept / plan.num_rotated if plan.num_rotated else 1.0
