"""Powers of two that bring rows of any magnitude near one, exactly."""

from __future__ import annotations

import torch
from torch import Tensor


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
