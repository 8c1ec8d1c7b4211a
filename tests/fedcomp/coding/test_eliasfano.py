from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.coding.eliasfano import decode, encode, encoded_bytes


@given(st.integers(1, 5000).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=200))))
def test_places_come_back(case: tuple[int, set[int]]) -> None:
    universe, chosen = case
    places = np.array(sorted(chosen), dtype=np.int64)
    data = encode(places, universe)
    assert len(data) == encoded_bytes(len(places), universe)
    found = decode(data, len(places), universe)
    assert found is not None
    assert found.tolist() == places.tolist()


@pytest.mark.parametrize("share", [0.5, 0.1, 0.01, 0.0001])
def test_a_place_costs_two_bits_and_the_logarithm_of_the_gap(share: float) -> None:
    universe = 10**6
    count = int(share * universe)
    assert 8 * encoded_bytes(count, universe) <= count * (2 + math.log2(universe / count)) + 16


@given(st.binary(min_size=encoded_bytes(5, 1000), max_size=encoded_bytes(5, 1000)))
def test_what_decodes_is_increasing_and_in_range(data: bytes) -> None:
    found = decode(data, 5, 1000)
    if found is not None:
        assert len(found) == 5
        assert (np.diff(found) > 0).all()
        assert 0 <= found[0] <= found[-1] < 1000
