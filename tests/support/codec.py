"""Encode with any scheme: powersgd must know the tensors' shapes, the others may."""

from __future__ import annotations

from torch import Tensor

import fedcomp
from fedcomp.bench.distributions import square_shapes


def encode(spec: str, x: Tensor, *, seed: int) -> bytes:
    return fedcomp.compressor(spec).encode(x, seed=seed, shapes=square_shapes(x.numel()))


def roundtrip(spec: str, x: Tensor, *, seed: int) -> Tensor:
    return fedcomp.decode(encode(spec, x, seed=seed), seed=seed)
