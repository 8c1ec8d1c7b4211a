"""The catalogue is plain data, so that it needs no torch; here it is compared with what the schemes say and do."""

from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.compressors.catalogue import SCHEMES, Example, Scheme
from fedcomp.metrics import vnmse
from tests.support import codec

ALL = [(scheme, example) for scheme in SCHEMES for example in scheme.examples]
# powersgd's error depends on the number of coordinates: what the catalogue says is of a million.
ANY_DIM = [(scheme, example) for scheme, example in ALL if scheme.name != "powersgd"]


def name(value: Scheme | Example) -> str:
    return value.spec if isinstance(value, Example) else ""


@pytest.mark.parametrize(("scheme", "example"), ALL, ids=name)
def test_it_says_what_the_scheme_says(scheme: Scheme, example: Example) -> None:
    made = fedcomp.compressor(example.spec)
    assert made.number == scheme.number
    assert made.is_unbiased == scheme.unbiased
    if example.nominal_bits is None:
        assert made.nominal_bits is None
    else:
        assert made.nominal_bits == pytest.approx(example.nominal_bits, rel=1e-3)
    expected = made.expected_vnmse(10**6)
    if expected is not None:
        assert example.vnmse == pytest.approx(expected, rel=5e-3)


# Where the levels reach to the largest of a block's numbers, the error of 16 blocks deviates by 3 %; where they reach
# to the largest of all, by 10 %. qsgd's at two bits sits in 9,000 coordinates and deviates by 2 %.
TOLERANCES = {"terngrad": 0.2, "hadamard": 0.08, "correlated": 0.08, "qsgd": 0.05}


@pytest.mark.parametrize(("scheme", "example"), ANY_DIM, ids=name)
def test_the_error_is_that_of_normal_coordinates(scheme: Scheme, example: Example) -> None:
    x = torch.randn(2**18, generator=torch.Generator().manual_seed(4))
    error = vnmse(codec.roundtrip(example.spec, x, seed=4), x)
    assert error == pytest.approx(example.vnmse, rel=TOLERANCES.get(scheme.name, 0.03))


def test_every_scheme_has_an_example() -> None:
    assert all(scheme.examples for scheme in SCHEMES)
