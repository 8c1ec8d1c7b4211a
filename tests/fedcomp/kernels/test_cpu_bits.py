from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.coding.bitpack import pack_bits
from fedcomp.kernels.cpu_bits import pack, unpack


@given(st.integers(1, 8), st.integers(0, 40), st.integers(0, 2**31 - 1))
def test_the_layout_is_that_of_bitpack(bits: int, eighths: int, seed: int) -> None:
    values = torch.randint(0, 2**bits, (1, 8 * eighths), generator=torch.Generator().manual_seed(seed)).to(torch.uint8)
    packed = torch.full((eighths * bits,), 255, dtype=torch.uint8)
    pack(values[0].numpy(), bits, packed.numpy())
    assert torch.equal(packed, pack_bits(values, bits)[0])
    back = torch.full_like(values[0], 255)
    unpack(packed.numpy(), bits, back.numpy())
    assert torch.equal(back, values[0])


@pytest.mark.parametrize("bits", range(1, 9))
def test_a_whole_block(bits: int) -> None:
    values = (torch.arange(16384) * 37 % 2**bits).to(torch.uint8)
    packed = torch.empty(2048 * bits, dtype=torch.uint8)
    pack(values.numpy(), bits, packed.numpy())
    assert torch.equal(packed, pack_bits(values[None], bits)[0])
