from __future__ import annotations

import pytest
import torch

from fedcomp.bench.textbook import TextbookEden
from fedcomp.metrics import vnmse

CPU = torch.device("cpu")


@pytest.mark.parametrize("dim", [4096, 5000])
def test_it_is_eden_at_two_bits(dim: int) -> None:
    # The relative standard deviation of the error is about sqrt(2/4096) = 2.2 %; padding spreads it over more.
    x = torch.randn(dim, generator=torch.Generator().manual_seed(1))
    coder = TextbookEden(dim, CPU)
    coded = coder.encode(x, 3)
    y = coder.decode(coded, 3)
    assert y.shape == (dim,)
    size = coded.indices.numel()
    assert size == 1 << (dim - 1).bit_length()
    assert vnmse(y, x) == pytest.approx(0.1331 * (dim / size), rel=0.15)
    # The projection law, over the padding too: only where there is none it is exact.
    if dim == size:
        assert float(torch.dot(y, x)) == pytest.approx(float(torch.dot(x, x)), rel=1e-4)


def test_another_seed_rotates_otherwise_and_decodes_to_noise() -> None:
    x = torch.randn(1024, generator=torch.Generator().manual_seed(1))
    coder = TextbookEden(1024, CPU)
    coded = coder.encode(x, 3)
    assert not torch.equal(coded.indices, coder.encode(x, 4).indices)
    assert vnmse(coder.decode(coded, 4), x) > 1


def test_indices_are_int64_and_counted_as_such() -> None:
    coder = TextbookEden(1000, CPU)
    coded = coder.encode(torch.ones(1000), 1)
    assert coded.indices.dtype == torch.int64
    assert coder.size(coded) == 8 * 1024 + 4


def test_adding_is_decoding_and_a_sum() -> None:
    x = torch.randn(300, generator=torch.Generator().manual_seed(1))
    coder = TextbookEden(300, CPU)
    coded = coder.encode(x, 3)
    coder.add(coded, 3)
    coder.add(coded, 3)
    assert torch.equal(coder._sum, 2 * coder.decode(coded, 3).double())
