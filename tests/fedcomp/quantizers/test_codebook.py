from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch

from fedcomp.quantizers.codebook import DISTORTION, boundaries, centroids, dequantize, quantize

CPU = torch.device("cpu")
BITS = range(1, 9)


def density(z: float) -> float:
    return math.exp(-z * z / 2) / math.sqrt(2 * math.pi)


def mass(low: float, high: float) -> float:
    return (math.erfc(low / math.sqrt(2)) - math.erfc(high / math.sqrt(2))) / 2


@pytest.mark.parametrize("bits", BITS)
def test_each_centroid_is_the_mean_of_its_cell(bits: int) -> None:
    table = centroids(bits, device=CPU).double().tolist()
    edges = [-math.inf, *((a + b) / 2 for a, b in pairwise(table)), math.inf]
    for centroid, low, high in zip(table, edges, edges[1:], strict=False):
        if low < 0:
            continue  # the table is symmetric, and erfc is accurate on the positive side only
        assert centroid == pytest.approx((density(low) - density(high)) / mass(low, high), rel=2e-6)


@pytest.mark.parametrize("bits", BITS)
def test_the_distortion_is_that_of_the_table(bits: int) -> None:
    table = centroids(bits, device=CPU).double().tolist()
    half = table[len(table) // 2 :]
    edges = [0.0, *((a + b) / 2 for a, b in pairwise(half)), math.inf]
    kept = 2 * sum(mass(low, high) * c * c for c, low, high in zip(half, edges, edges[1:], strict=False))
    assert 1 - kept == pytest.approx(DISTORTION[bits], rel=1e-4, abs=1e-9)


def test_distortions_are_the_published_ones() -> None:
    # Max, 1960, table I, to the digits given there.
    assert [round(DISTORTION[bits], 4) for bits in (1, 2, 3, 4)] == [0.3634, 0.1175, 0.0345, 0.0095]


@pytest.mark.parametrize("bits", BITS)
def test_tables_are_symmetric_increasing_and_complete(bits: int) -> None:
    table = centroids(bits, device=CPU)
    assert len(table) == 2**bits
    assert torch.equal(table, -table.flip(0))
    assert bool((table[1:] > table[:-1]).all())
    assert boundaries(bits, device=CPU)[2 ** (bits - 1) - 1] == 0


@pytest.mark.parametrize("bits", BITS)
def test_quantize_picks_the_nearest_centroid(bits: int) -> None:
    z = torch.randn(5000, generator=torch.Generator().manual_seed(bits))
    nearest = (z[:, None] - centroids(bits, device=CPU)).abs().amin(dim=1)
    torch.testing.assert_close((z - dequantize(quantize(z, bits), bits)).abs(), nearest)
