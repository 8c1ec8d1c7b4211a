from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.coding import levels


@given(st.lists(st.one_of(st.just(0), st.integers(-127, 127)), max_size=200))
def test_what_is_encoded_comes_back(values: list[int]) -> None:
    mode, nonzeros, data = levels.encode(np.array(values, dtype=np.int64))
    decoded = levels.decode(memoryview(data), len(values), mode=mode, nonzeros=nonzeros)
    assert decoded is not None
    assert decoded.tolist() == values


def test_the_shorter_form_is_taken() -> None:
    sparse = np.zeros(10_000, dtype=np.int64)
    sparse[[5, 900, 9999]] = [1, -1, 2]
    mode, nonzeros, data = levels.encode(sparse)
    assert (mode, nonzeros) == (levels.SPARSE, 3)
    assert len(data) < 12
    mode, _, data = levels.encode(np.tile(np.array([0, 1, -2]), 1000))
    assert mode == levels.DENSE
    assert len(data) == (1000 * (1 + 3 + 3) + 2000) // 8


@pytest.mark.parametrize("mode", [levels.DENSE, levels.SPARSE])
@given(data=st.binary(max_size=40), nonzeros=st.integers(0, 50))
def test_any_bytes_are_refused_or_mean_what_would_be_written(mode: int, data: bytes, nonzeros: int) -> None:
    decoded = levels.decode(memoryview(data), 40, mode=mode, nonzeros=nonzeros)
    if decoded is not None:
        assert decoded.shape == (40,)
        assert np.count_nonzero(decoded) == nonzeros


def test_the_number_of_nonzeros_must_agree() -> None:
    mode, nonzeros, data = levels.encode(np.tile(np.array([0, 1, -2]), 10))
    assert mode == levels.DENSE
    assert levels.decode(memoryview(data), 30, mode=mode, nonzeros=nonzeros + 1) is None


def test_bytes_left_over_are_refused() -> None:
    mode, nonzeros, data = levels.encode(np.array([0, 3, 0, -1]))
    assert levels.decode(memoryview(data + b"\0"), 4, mode=mode, nonzeros=nonzeros) is None


def test_gaps_beyond_the_end_are_refused() -> None:
    values = np.zeros(1000, dtype=np.int64)
    values[[10, 999]] = 1
    mode, nonzeros, data = levels.encode(values)
    assert mode == levels.SPARSE
    assert levels.decode(memoryview(data), 999, mode=mode, nonzeros=nonzeros) is None
