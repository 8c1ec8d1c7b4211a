"""EDEN as published code has it, for a comparison: short torch operations over the whole vector.

Vargaftik, Ben Basat, Portnoy, Mendelson, Ben-Itzhak, Mitzenmacher, "EDEN: Communication-efficient and robust
distributed mean estimation for federated learning", ICML 2022 (arXiv 2108.08842), §3. The vector is padded to a power
of two, rotated once in a loop of butterflies, and quantized to int64 indices that stay unpacked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcomp.bench.coders import Coder
from fedcomp.quantizers.codebook import boundaries, centroids

BITS = 2
NAME = f"textbook eden, {BITS} bits"


@dataclass(frozen=True)
class Coded:
    """What is sent: a scale and one int64 index a coordinate of the padded vector."""

    scale: Tensor
    indices: Tensor


class TextbookEden(Coder[Coded]):
    """Encode and decode vectors of ``dim`` coordinates at two bits; unbiased but for its single rotation."""

    def __init__(self, dim: int, device: torch.device) -> None:
        self._sum = torch.zeros(dim, dtype=torch.float64, device=device)
        self._centroids = centroids(BITS, device=device)
        self._boundaries = boundaries(BITS, device=device)

    def encode(self, x: Tensor, seed: int) -> Coded:
        """Rotate, normalise, quantize."""
        size = 1 << max(0, x.numel() - 1).bit_length()
        rotated = _hadamard(torch.nn.functional.pad(x, (0, size - x.numel())) * _signs(size, seed, x.device))
        norm = rotated.norm()
        indices = torch.bucketize(rotated * (math.sqrt(size) / norm), self._boundaries)
        return Coded(norm**2 / torch.dot(self._centroids[indices], rotated), indices)

    def decode(self, coded: Coded, seed: int) -> Tensor:
        """Look the centroids up, rotate back, scale."""
        signs = _signs(coded.indices.numel(), seed, coded.indices.device)
        return (_hadamard(self._centroids[coded.indices]) * signs * coded.scale)[: self._sum.numel()]

    def add(self, coded: Coded, seed: int) -> None:
        """Decode and add."""
        self._sum.add_(self.decode(coded, seed))

    def size(self, coded: Coded) -> int:
        """Return the bytes of scale and indices."""
        return coded.scale.nbytes + coded.indices.nbytes


def _signs(size: int, seed: int, device: torch.device) -> Tensor:
    generator = torch.Generator(device=device).manual_seed(seed % 2**63)
    return 2.0 * torch.randint(0, 2, (size,), generator=generator, device=device) - 1.0


def _hadamard(x: Tensor) -> Tensor:
    """Apply the orthonormal Hadamard matrix in place: a stage pairs coordinates ``span`` apart."""
    span = 1
    while span < x.numel():
        pairs = x.view(-1, 2, span)
        pairs[:, 0] = pairs[:, 0] + pairs[:, 1]
        # (a + b) − 2b is a − b.
        pairs[:, 1] = pairs[:, 0] - 2 * pairs[:, 1]
        span *= 2
    return x.div_(math.sqrt(x.numel()))
