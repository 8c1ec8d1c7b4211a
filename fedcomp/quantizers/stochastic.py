"""Stochastic rounding: to one of the two neighbours, so that the mean is the number itself."""

from __future__ import annotations

import torch
from torch import Tensor

from fedcomp.kernels.seed_words import uniforms


def round_stochastically(values: Tensor, *, seed: int) -> Tensor:
    """Map numbers to ⌊v⌋ or ⌊v⌋ + 1, the latter with probability v − ⌊v⌋; same shape, float32.

    Unbiased over the seed for magnitudes below 2^23; whole numbers stay. The numbers are drawn from a stream of their
    own, independent of the rotation's.
    """
    noise = uniforms(seed, values.numel(), device=values.device).view(values.shape)
    return torch.floor(values + noise)
