"""Blocks of a vector as rows of a matrix, a cacheful at a time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedcomp.compressors.blocks import MIN_BLOCK, BlockPlan, Group

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


def take(x: Tensor, group: Group, first: int, last: int) -> Tensor:
    """Return blocks ``first`` to ``last`` of the group, (m, size); a view, or one padded block that ends in zeros."""
    start = group.start + first * group.size
    stop = min(group.start + last * group.size, group.stop)
    part = x[start:stop]
    if group.is_padded:
        padded = torch.zeros((1, group.size), dtype=x.dtype, device=x.device)
        padded[0, : part.numel()] = part
        return padded
    return part.view(last - first, group.size)


def put(out: Tensor, blocks: Tensor, group: Group, first: int, last: int) -> None:
    """Write blocks ``first`` to ``last`` of the group, (m, size), to their places in ``out``; padding is dropped."""
    start = group.start + first * group.size
    stop = min(group.start + last * group.size, group.stop)
    out[start:stop] = blocks.reshape(-1)[: stop - start]


def unpadded_lengths(group: Group, device: torch.device) -> Tensor:
    """Return how many coordinates of each of the group's blocks are not padding, float64, shape (count,)."""
    found = torch.full((group.count,), float(group.size), dtype=torch.float64, device=device)
    # Only a group of one block is ever padded.
    found[-1] = group.stop - group.start - (group.count - 1) * group.size
    return found


def round_up(values: Tensor) -> Tensor:
    """Round float64 numbers to float32 that are not smaller, so that nothing exceeds the range that is sent."""
    rounded = values.float()
    above = torch.nextafter(rounded, torch.full_like(rounded, torch.inf))
    return torch.where(rounded.double() < values, above, rounded)
