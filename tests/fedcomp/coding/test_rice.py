from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.coding import rice


@given(st.lists(st.integers(0, 500), max_size=100), st.integers(0, 6))
def test_what_is_encoded_comes_back(values: list[int], k: int) -> None:
    array = np.array(values, dtype=np.int64)
    data = rice.encode(array, k)
    assert len(data) == -(-rice.encoded_bits(array, k) // 8)
    decoded = rice.decode(data, len(values), k)
    assert decoded is not None
    assert decoded.tolist() == values


def test_the_best_k_is_close_to_the_entropy_of_geometric_numbers() -> None:
    values = np.random.default_rng(1).geometric(0.2, 20_000) - 1
    counts = np.bincount(values) / len(values)
    entropy = -(counts[counts > 0] * np.log2(counts[counts > 0])).sum()
    bits = rice.encoded_bits(values, rice.best_k(values)) / len(values)
    assert entropy < bits < 1.04 * entropy
    assert bits == min(rice.encoded_bits(values, k) for k in range(16)) / len(values)


@given(st.binary(max_size=30), st.integers(0, 60), st.integers(0, 15))
def test_any_bytes_are_refused_or_are_what_would_be_written(data: bytes, count: int, k: int) -> None:
    values = rice.decode(data, count, k)
    if values is not None:
        assert rice.encode(values, k) == data


def test_a_count_beyond_the_bytes_allocates_nothing() -> None:
    assert rice.decode(b"\xff", 2**60, 3) is None
