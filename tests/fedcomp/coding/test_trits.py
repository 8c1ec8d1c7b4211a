from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.coding.trits import MAX_BYTE, pack_trits, trit_bytes, unpack_trits


@given(st.lists(st.integers(0, 2), max_size=60))
def test_trits_take_a_fifth_of_a_byte(values: list[int]) -> None:
    trits = torch.tensor(values, dtype=torch.uint8)
    packed = pack_trits(trits)
    assert packed.numel() == trit_bytes(len(values)) == -(-len(values) // 5)
    assert not len(values) or int(packed.max()) <= MAX_BYTE
    assert unpack_trits(packed, len(values)).tolist() == values


def test_the_layout_is_golden() -> None:
    assert pack_trits(torch.tensor([2, 1, 0, 0, 1])).tolist() == [2 + 3 + 81]
    assert pack_trits(torch.tensor([2, 2, 2, 2, 2])).tolist() == [MAX_BYTE]
