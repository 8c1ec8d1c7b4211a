from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.coding import varint


@given(st.lists(st.integers(0, 2**63 - 1), max_size=20))
def test_what_is_encoded_comes_back(numbers: list[int]) -> None:
    assert varint.decode(varint.encode(numbers)) == numbers


def test_small_numbers_are_a_byte() -> None:
    assert varint.encode([0, 127, 128, 300]) == bytes([0, 127, 0x80, 1, 0xAC, 2])


@pytest.mark.parametrize(
    "data",
    [
        b"\x80",  # cut off
        b"\x05\xff",  # cut off after a good one
        b"\x80\x00",  # zero in two bytes
        b"\xff" * 9 + b"\x01",  # more than 63 bits
    ],
)
def test_what_encode_never_writes_is_refused(data: bytes) -> None:
    assert varint.decode(data) is None


@given(st.binary(max_size=30))
def test_bytes_mean_one_list_of_numbers_or_none(data: bytes) -> None:
    numbers = varint.decode(data)
    assert numbers is None or varint.encode(numbers) == data
