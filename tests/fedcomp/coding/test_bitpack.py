from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.coding.bitpack import pack_bits, unpack_bits


@given(st.integers(1, 8), st.integers(1, 4), st.integers(1, 40), st.integers(0, 2**32))
def test_packing_is_exact_and_lossless(bits: int, rows: int, eighths: int, seed: int) -> None:
    count = 8 * eighths
    values = torch.randint(0, 2**bits, (rows, count), generator=torch.Generator().manual_seed(seed))
    packed = pack_bits(values, bits)
    assert packed.dtype == torch.uint8
    assert packed.shape == (rows, count * bits // 8)
    assert torch.equal(unpack_bits(packed, bits, count).long(), values)


@pytest.mark.parametrize(
    ("bits", "values", "expected"),
    [
        # One bit: integer i is bit i of the only byte, for eight integers.
        (1, [1, 0, 1, 1, 0, 0, 0, 1], [0b10001101]),
        # Two bits: byte 0 holds integers 0, 2, 4, 6, byte 1 holds 1, 3, 5, 7.
        (2, [0, 1, 2, 3, 3, 2, 1, 0], [0b01_11_10_00, 0b00_10_11_01]),
        # Three bits: a plane of the two low bits, then a plane of the high bit.
        (3, [0, 1, 2, 3, 4, 5, 6, 7], [0b10_00_10_00, 0b11_01_11_01, 0b11110000]),
        (8, [0, 255, 1, 2, 3, 4, 5, 6], [0, 255, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_the_layout_is_golden(bits: int, values: list[int], expected: list[int]) -> None:
    assert pack_bits(torch.tensor([values]), bits)[0].tolist() == expected


def test_rows_are_independent() -> None:
    values = torch.randint(0, 8, (3, 64), generator=torch.Generator().manual_seed(0))
    together = pack_bits(values, 3)
    assert all(torch.equal(together[row], pack_bits(values[row : row + 1], 3)[0]) for row in range(3))
