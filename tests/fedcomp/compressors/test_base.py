from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.errors import NonFinite

LIMIT = torch.finfo(torch.float32).max


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("index", [0, 7, 999])
def test_the_first_bad_coordinate_is_named(value: float, index: int) -> None:
    x = torch.ones(1000)
    x[index:] = value
    with pytest.raises(NonFinite, match=rf"x\[{index}\] is {value}; every"):
        fedcomp.compressor("identity").encode(x, seed=1)


def test_infinities_that_cancel_are_seen() -> None:
    with pytest.raises(NonFinite, match=r"x\[1\] is inf"):
        fedcomp.compressor("identity").encode(torch.tensor([1.0, torch.inf, -torch.inf]), seed=1)


def test_finite_numbers_whose_sum_overflows_are_fine() -> None:
    x = torch.full((1000,), LIMIT)
    payload = fedcomp.compressor("identity").encode(x, seed=1)
    assert torch.equal(fedcomp.decode(payload, seed=1), x)


def test_a_float64_beyond_float32_is_named() -> None:
    with pytest.raises(NonFinite, match=r"x\[1\] is 1e\+39, beyond float32's range"):
        fedcomp.compressor("identity").encode(torch.tensor([1.0, 1e39], dtype=torch.float64), seed=1)


def test_accumulating_is_adding_what_is_decoded() -> None:
    from fedcomp.compressors.registry import accumulate

    payload = fedcomp.compressor("sign").encode(torch.linspace(-1, 2, 50), seed=1)
    into, expected = torch.ones(2, 50, dtype=torch.float64)
    accumulate(payload, seed=1, into=into, weight=0.3)
    expected.add_(fedcomp.decode(payload, seed=1), alpha=0.3)
    assert torch.equal(into, expected)
