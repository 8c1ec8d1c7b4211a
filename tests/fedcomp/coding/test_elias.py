from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.coding import elias

VALUES = st.lists(st.one_of(st.integers(1, 20), st.integers(1, 2**48 - 1)), max_size=60)


def omega_length(value: int) -> int:
    """The published recursion, one number at a time."""
    length = 1
    while value > 1:
        length += value.bit_length()
        value = value.bit_length() - 1
    return length


@given(VALUES)
def test_what_is_encoded_comes_back_in_the_published_number_of_bits(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    bits = elias.encode(array)
    assert bits.size == sum(map(omega_length, values))
    assert elias.lengths(array).tolist() == [omega_length(value) for value in values]
    decoded = elias.decode(bits, len(values))
    assert decoded is not None
    assert decoded[0].tolist() == values
    assert decoded[1] == bits.size


@pytest.mark.parametrize(
    ("value", "code"), [(1, "0"), (2, "10 0"), (3, "11 0"), (4, "10 100 0"), (12, "11 1001 0"), (17, "10 100 11000 0")]
)
def test_single_codewords(value: int, code: str) -> None:
    # The published codewords, but for the bits after each group's first, which come least significant first: the last
    # groups of 12 and 17 are 1100 and 10001 there.
    assert "".join(map(str, elias.encode(np.array([value])))) == code.replace(" ", "")


@given(VALUES.filter(bool), st.data())
def test_bits_that_end_too_early_are_refused(values: list[int], data: st.DataObject) -> None:
    bits = elias.encode(np.array(values, dtype=np.int64))
    cut = data.draw(st.integers(0, bits.size - 1))
    assert elias.decode(bits[:cut], len(values)) is None


@given(st.lists(st.integers(0, 1), max_size=300), st.integers(0, 400))
def test_any_bits_are_read_or_refused(raw: list[int], count: int) -> None:
    bits = np.array(raw, dtype=np.uint8)
    decoded = elias.decode(bits, count)
    if decoded is not None:
        values, used = decoded
        assert np.array_equal(elias.encode(values), bits[:used])


def test_an_endless_chain_is_refused() -> None:
    # All ones: 1, 3, 15, 65535, … would soon ask for more bits than there are particles.
    assert elias.decode(np.ones(10**5, dtype=np.uint8), 1) is None


def test_a_count_beyond_the_bits_allocates_nothing() -> None:
    assert elias.decode(np.zeros(8, dtype=np.uint8), 2**60) is None
