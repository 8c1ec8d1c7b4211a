from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.kernels.cpu_quantize import codebook_of, quantize, workspace
from fedcomp.quantizers import codebook

CPU = torch.device("cpu")
ONE = np.float32(1)


def cells(x: torch.Tensor, bits: int, *, unit: float = 1.0, factor: float = 1.0) -> torch.Tensor:
    found = torch.full(x.shape, 255, dtype=torch.uint8)
    room = workspace(squared=True)
    quantize(x.numpy(), np.float32(unit), np.float32(factor), codebook_of(bits), room, found.numpy())
    return found


@pytest.mark.parametrize("bits", range(1, 9))
def test_boundaries_belong_to_the_lower_cell_and_their_neighbours_do_not(bits: int) -> None:
    edges = codebook.boundaries(bits, device=CPU)
    infinity = torch.tensor(torch.inf)
    z = torch.cat(
        [edges, torch.nextafter(edges, infinity), torch.nextafter(edges, -infinity), torch.tensor([0.0, -0.0])]
    )
    z = torch.cat([z, torch.tensor([4.5, -4.5, 4.49999, 600.0, -600.0, 1e-45, -1e-45, 1e38, -1e38])])
    assert torch.equal(cells(z, bits), codebook.quantize(z, bits))


@given(st.integers(1, 8), st.lists(st.floats(width=32, allow_nan=False), max_size=40))
def test_any_number_has_the_cell_of_the_definition(bits: int, values: list[float]) -> None:
    z = torch.tensor(values, dtype=torch.float32)
    assert torch.equal(cells(z, bits), codebook.quantize(z, bits))


@pytest.mark.parametrize("bits", range(1, 9))
def test_sums_are_over_all_tiles(bits: int) -> None:
    # Two whole tiles and a part of one.
    x = torch.randn(2200, generator=torch.Generator().manual_seed(bits))
    room, found = workspace(squared=True), torch.empty(2200, dtype=torch.uint8)
    unit, factor = np.float32(0.5), np.float32(1.75)
    quantize(x.numpy(), unit, factor, codebook_of(bits), room, found.numpy())
    indices = codebook.quantize(x * 0.5 * 1.75, bits)
    q = codebook.dequantize(indices, bits).double()
    assert torch.equal(found, indices)
    assert room.products.sum() == pytest.approx(float((q * x.double()).sum()), rel=1e-12)
    assert room.squares.sum() == pytest.approx(float(q.square().sum()), rel=1e-12)


def test_squares_are_summed_when_wanted() -> None:
    room = workspace(squared=False)
    quantize(np.ones(8, np.float32), ONE, ONE, codebook_of(2), room, np.empty(8, np.uint8))
    assert room.squares.sum() == 0
    assert room.products.sum() > 0


@pytest.mark.parametrize("bits", range(1, 9))
def test_nan_has_some_cell(bits: int) -> None:
    # A row beyond float32's range comes to this; its scale is refused afterwards.
    assert int(cells(torch.full((16,), torch.nan), bits).max()) < 2**bits
