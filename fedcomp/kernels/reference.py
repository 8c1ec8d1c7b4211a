"""The kernels of ``fedcomp.kernels.eden_rows`` as torch operations: the definition, for any device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcomp.coding.bitpack import pack_bits, unpack_bits
from fedcomp.quantizers.codebook import dequantize, quantize
from fedcomp.transforms.hadamard import rotate, unrotate
from fedcomp.transforms.unit_range import power_of_two, to_unit_range

rotate_rows, unrotate_rows = rotate, unrotate

# Rows are worked on so many coordinates at a time: small enough for a CPU's cache, large enough to fill a GPU.
_CHUNK = {"cpu": 2**17, "cuda": 2**24}


def encode_rows(
    blocks: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, unbiased: bool
) -> tuple[Tensor, Tensor]:
    """Map rows to scales and packed codes."""
    parts = [_encode(blocks[rows], means[rows], signs, low=low, k=k, unbiased=unbiased) for rows in _chunks(blocks)]
    return torch.cat([scale for scale, _ in parts]), torch.cat([code for _, code in parts])


def decode_rows(codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, out: Tensor) -> None:
    """Write the estimates of all rows."""
    for rows in _chunks(out):
        out[rows] = _decode(codes[rows], scales[rows], means[rows], signs, low, k, out.shape[1])


def accumulate_rows(
    codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, into: Tensor, weight: float
) -> None:
    """Add ``weight`` times the estimates of all rows."""
    for rows in _chunks(into):
        estimate = _decode(codes[rows], scales[rows], means[rows], signs, low, k, into.shape[1])
        into[rows].add_(estimate, alpha=weight)


def row_moments(blocks: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
    """Map rows less their means to their sums and sums of squares."""
    parts = [(blocks[rows] - means[rows, None]).double() for rows in _chunks(blocks)]
    return torch.cat([part.sum(dim=1) for part in parts]), torch.cat([part.square().sum(dim=1) for part in parts])


def row_products(left: Tensor, right: Tensor) -> Tensor:
    """Map rows to their inner products."""
    parts = [(left[rows].double() * right[rows].double()).sum(dim=1) for rows in _chunks(left)]
    return torch.cat(parts)


def _chunks(rows: Tensor) -> Iterator[slice]:
    m, n = rows.shape
    step = max(1, _CHUNK.get(rows.device.type, _CHUNK["cuda"]) // n)
    for first in range(0, m, step):
        yield slice(first, min(first + step, m))


@dataclass(frozen=True)
class Normalised:
    """Rotated rows as EDEN quantizes them.

    Attributes
    ----------
    z
        Shape (m, n), float32, rows of norm √n.
    rotated
        The same before the division by their norm.
    energy
        Squared norms of ``rotated``, (m,), float64.
    exponents
        The rows are 2^exponent times ``rotated``.
    """

    z: Tensor
    rotated: Tensor
    energy: Tensor
    exponents: Tensor

    def scale(self, inner: Tensor, quantized_energy: Tensor, *, unbiased: bool) -> Tensor:
        """Return what the levels q are multiplied by, float32, from ⟨q, rotated⟩ and ‖q‖², both float64."""
        ratio = self.energy / inner if unbiased else inner / quantized_energy
        scale = torch.where(self.energy > 0, ratio, 0.0)
        return (scale * power_of_two(self.exponents)).float()


def normalise(blocks: Tensor, means: Tensor, signs: Tensor, *, rotation: Callable[..., Tensor] = rotate) -> Normalised:
    """Subtract the means, scale to the unit range, rotate, divide by the norm."""
    unit, exponents = to_unit_range(blocks - means[:, None])
    energy = unit.double().square().sum(dim=1)
    rotated = rotation(unit, signs)
    # A zero row divides by one, so its indices are some constant; its scale of zero makes it decode to zero.
    rms = torch.sqrt(torch.where(energy > 0, energy, 1.0) / blocks.shape[1])
    return Normalised(rotated * (1 / rms).float()[:, None], rotated, energy, exponents)


def _encode(blocks: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, unbiased: bool) -> tuple[Tensor, Tensor]:
    n = blocks.shape[1]
    rows = normalise(blocks, means, signs)
    inner, energy = torch.zeros_like(rows.energy), torch.zeros_like(rows.energy)
    packed = []
    for start, stop, bits in ((0, k, low + 1), (k, n, low)):
        if bits == 0 or start == stop:
            continue
        indices = quantize(rows.z[:, start:stop].contiguous(), bits)
        centroid = dequantize(indices, bits).double()
        inner += (centroid * rows.rotated[:, start:stop].double()).sum(dim=1)
        energy += centroid.square().sum(dim=1)
        packed.append(pack_bits(indices, bits))
    return rows.scale(inner, energy, unbiased=unbiased), torch.cat(packed, dim=1)


def _decode(codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, low: int, k: int, n: int) -> Tensor:
    cut = (low + 1) * k // 8
    centroid = torch.cat([_levels(codes[:, :cut], k, low + 1), _levels(codes[:, cut:], n - k, low)], dim=1)
    # Near float32's limit an estimate may exceed a value that itself is finite.
    limit = torch.finfo(torch.float32).max
    return (unrotate(centroid, signs) * scales[:, None] + means[:, None]).clamp_(-limit, limit)


def _levels(packed: Tensor, count: int, bits: int) -> Tensor:
    """Map packed indices (m, count·bits/8) to centroids (m, count); zeros where no bits were sent."""
    if bits == 0 or count == 0:
        return torch.zeros((packed.shape[0], count), dtype=torch.float32, device=packed.device)
    return dequantize(unpack_bits(packed, bits, count), bits)
