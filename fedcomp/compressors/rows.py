"""Blocks of a vector as rows of a matrix, a cacheful at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedcomp.coding.bitpack import unpack_bits
from fedcomp.compressors.blocks import MIN_BLOCK, BlockPlan, Group
from fedcomp.compressors.means import worthwhile_means
from fedcomp.quantizers.codebook import dequantize

# Blocks are worked on so many coordinates at a time: small enough for a CPU's cache, large enough to fill a GPU.
_CHUNK = {"cpu": 2**17, "cuda": 2**24}


def largest(plan: BlockPlan) -> int:
    """Return the size of the largest block: so many signs are needed."""
    return max((group.size for group in plan.groups), default=MIN_BLOCK)


def chunks(plan: BlockPlan, device: torch.device) -> Iterator[tuple[Group, int, int]]:
    """Yield (group, first block, last block) so that a chunk fits the device's fast memory."""
    limit = _CHUNK.get(device.type, _CHUNK["cuda"])
    for group in plan.groups:
        step = max(1, limit // group.size)
        for first in range(0, group.count, step):
            yield group, first, min(first + step, group.count)


def take(x: Tensor, group: Group, first: int, last: int, *, subtract: Tensor | None = None) -> Tensor:
    """Return blocks ``first`` to ``last`` of the group less their means, (m, size); a padded block ends in zeros."""
    start = group.start + first * group.size
    stop = min(group.start + last * group.size, group.stop)
    part = x[start:stop]
    missing = (last - first) * group.size - part.numel()
    if missing:
        # Only a group of one block is ever padded.
        padded = torch.zeros((1, group.size), dtype=x.dtype, device=x.device)
        padded[0, : part.numel()] = part if subtract is None else part - subtract
        return padded
    blocks = part.view(last - first, group.size)
    return blocks if subtract is None else blocks - subtract[:, None]


def put(out: Tensor, blocks: Tensor, group: Group, first: int, last: int) -> None:
    """Write blocks ``first`` to ``last`` of the group, (m, size), to their places in ``out``; padding is dropped."""
    start = group.start + first * group.size
    stop = min(group.start + last * group.size, group.stop)
    out[start:stop] = blocks.reshape(-1)[: stop - start]


def chunk_means(x: Tensor, group: Group, first: int, last: int) -> Tensor:
    """Return the means worth sending of blocks ``first`` to ``last`` of the group, 0 elsewhere; shape (m,)."""
    blocks = take(x, group, first, last)
    lengths = torch.full((last - first,), float(group.size), dtype=torch.float64, device=x.device)
    if group.stop - group.start < group.size * group.count:
        lengths[-1] = group.stop - group.start
    return worthwhile_means(blocks, lengths)


def to_unit_range(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return blocks / 2^e with each row's largest magnitude in [0.5, 1), and e of shape (m,), exactly.

    The power of two is applied as two factors, since 2^e of a subnormal row is itself outside float32's range.
    """
    exponents = torch.frexp(blocks.abs().amax(dim=1)).exponent
    half = torch.div(exponents, 2, rounding_mode="floor")
    first, second = power_of_two(-half).float(), power_of_two(half - exponents).float()
    return blocks * first[:, None] * second[:, None], exponents


def power_of_two(exponents: Tensor) -> Tensor:
    """Return 2^e as float64, exactly; torch.ldexp and torch.pow go through float32 or may be off by a bit."""
    return ((exponents.to(torch.int64) + 1023) << 52).view(torch.float64)


def round_up(values: Tensor) -> Tensor:
    """Round float64 numbers to float32 that are not smaller, so that nothing exceeds the range that is sent."""
    rounded = values.float()
    above = torch.nextafter(rounded, torch.full_like(rounded, torch.inf))
    return torch.where(rounded.double() < values, above, rounded)


def levels(packed: Tensor, count: int, bits: int) -> Tensor:
    """Map packed indices (m, count·bits/8) to centroids (m, count); zeros where no bits were sent."""
    if bits == 0 or count == 0:
        return torch.zeros((packed.shape[0], count), dtype=torch.float32, device=packed.device)
    return dequantize(unpack_bits(packed, bits, count), bits)
