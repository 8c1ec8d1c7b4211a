"""Pools: coordinates of like energy, gathered so that they can be rotated together and share a rate.

The order and the cut depend on the classes alone, in integers, so that the decoder finds them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from fedcomp.allocation.models import ZERO, Labels, Model
from fedcomp.kernels.eden_rows import is_compiled

POOL_STEP = 1024
"""Pools are cut at multiples of this, so that their blocks are large powers of two."""


def merge_counts(models: Sequence[Model], *, floor: int) -> tuple[Labels, Labels]:
    """Return (classes with energy, from the highest; how many coordinates each has); none is below ``floor``."""
    total: dict[int, int] = {}
    for model in models:
        for value, count in zip(*model.counts(), strict=True):
            if value != ZERO:
                key = max(int(value), floor)
                total[key] = total.get(key, 0) + int(count)
    values = sorted(total, reverse=True)
    return np.array(values, dtype=np.int64), np.array([total[value] for value in values], dtype=np.int64)


def pool_sizes(counts: Labels) -> list[int]:
    """Return the sizes of the pools into which classes of so many coordinates, from the highest, are cut."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    cuts = sorted({int(end + POOL_STEP // 2) // POOL_STEP * POOL_STEP for end in ends[:-1]} - {0})
    edges = [0, *(cut for cut in cuts if cut < total), total]
    return [stop - start for start, stop in pairwise(edges) if stop > start]


def pool_order(models: Sequence[Model], *, floor: int, device: torch.device) -> Tensor:
    """Return the places of all coordinates with energy, by falling class and then by place; int64."""
    parts = [model.classes(device) for model in models]
    classes = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.int16, device=device)
    if is_compiled(device):
        from fedcomp.kernels.cpu_order import order_by_falling_class

        return torch.from_numpy(order_by_falling_class(classes.numpy(), floor, ZERO))
    zeros = int((classes == ZERO).sum())
    falling = torch.where(classes == ZERO, -ZERO, -classes.clamp(min=floor)).to(torch.int16)
    if device.type == "cpu":
        # A stable sort of 16-bit integers is a radix sort in numpy, ten times as fast as torch's.
        order = torch.from_numpy(np.argsort(falling.numpy(), kind="stable"))
    else:
        order = falling.sort(stable=True).indices
    return order[: len(classes) - zeros]
