from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.downsample import thin

SERIES = st.lists(st.floats(allow_nan=True), max_size=400)


@given(values=SERIES, most=st.integers(0, 60))
def test_what_is_kept_is_little_in_order_and_has_ends_and_extremes(values: list[float], most: int) -> None:
    kept = thin(values, most)
    assert kept == sorted(set(kept))
    assert len(kept) <= max(most, 5)
    if values:
        assert kept[0] == 0
        assert kept[-1] == len(values) - 1
    finite = [value for value in values if math.isfinite(value)]
    chosen = [values[i] for i in kept]
    if finite:
        assert min(finite) in chosen
        assert max(finite) in chosen
    assert any(math.isfinite(value) for value in chosen) == bool(finite)
    assert all(map(math.isfinite, chosen)) == (len(finite) == len(values))


@pytest.mark.parametrize("spike", [1, 777, 998])
def test_a_spike_of_one_round_is_never_lost(spike: int) -> None:
    values = [0.0] * 1000
    values[spike] = -5.0
    assert spike in thin(values, 20)


def test_few_points_are_all_kept() -> None:
    assert thin([math.nan, 1.0, 2.0], 10) == [0, 1, 2]
    assert thin([], 10) == []


def test_points_are_spread_over_the_whole_length() -> None:
    kept = thin([float(i % 7) for i in range(10_000)], 100)
    assert len(kept) >= 90
    assert max(b - a for a, b in pairwise(kept)) < 10_000 / 30
