from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.transforms.unit_range import power_of_two, to_unit_range


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_the_largest_magnitude_comes_to_the_unit_range_exactly(values: list[float]) -> None:
    row = torch.tensor([values], dtype=torch.float32)
    unit, exponents = to_unit_range(row)
    largest = float(unit.abs().max())
    assert largest == 0 or 0.5 <= largest < 1
    place = row.abs().argmax()
    assert float(unit[0, place].double() * power_of_two(exponents)) == float(row[0, place])


def test_powers_of_two_are_exact() -> None:
    exponents = torch.arange(-300, 300)
    assert power_of_two(exponents).tolist() == [2.0**exponent for exponent in range(-300, 300)]
