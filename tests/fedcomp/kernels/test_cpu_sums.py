from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from fedcomp.kernels.cpu_sums import LANES, add_products, add_squares, add_values, raise_to_magnitudes

SIZES = [0, 8, LANES - 8, LANES, LANES + 8, 5 * LANES + 16]


@pytest.mark.parametrize("size", SIZES)
def test_sums_are_those_of_exact_arithmetic_and_go_on(size: int) -> None:
    generator = np.random.default_rng(size)
    x, y = (generator.standard_normal(size + 8).astype(np.float32) for _ in range(2))
    values, squares, products = np.ones((3, LANES))
    add_values(x[:size], values)
    add_squares(x[:size], squares)
    add_products(x[:size], y, products)
    exact = [[Fraction(float(item)) for item in array[:size]] for array in (x, y)]
    for lanes, wanted in (
        (values, sum(exact[0])),
        (squares, sum(item**2 for item in exact[0])),
        (products, sum(a * b for a, b in zip(*exact, strict=True))),
    ):
        assert math.fsum(lanes) - LANES == pytest.approx(float(wanted), abs=1e-12 * (LANES + size))


@pytest.mark.parametrize("size", SIZES)
def test_the_largest_magnitude_is_found_wherever_it_is(size: int) -> None:
    for place in range(0, size, 7):
        x = np.full(size, -1.0, np.float32)
        x[place] = -3.5
        lanes = np.zeros(LANES, np.float32)
        raise_to_magnitudes(x, lanes)
        assert lanes.max() == 3.5
