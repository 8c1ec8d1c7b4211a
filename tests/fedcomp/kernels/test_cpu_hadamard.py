from __future__ import annotations

import numpy as np
import pytest
import torch

from fedcomp.kernels.cpu_hadamard import LARGEST, SMALLEST, hadamard
from fedcomp.transforms import hadamard as definition

SIZES = [2**k for k in range(SMALLEST.bit_length() - 1, LARGEST.bit_length())]


def bits(x: torch.Tensor) -> list[int]:
    return x.view(torch.int32).flatten().tolist()


@pytest.mark.parametrize("n", SIZES)
def test_every_size_has_the_bits_of_the_definition(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    x = torch.randn(1, n, generator=generator) * torch.logspace(-6, 6, n)
    signs = torch.randint(0, 2, (n,), generator=generator).float() * 2 - 1
    found = x[0].clone()
    hadamard(found.numpy(), signs.numpy())
    assert bits(found) == bits(definition._hadamard(x * signs))


def test_signs_may_be_of_a_larger_block() -> None:
    x, signs = torch.randn(512, generator=torch.Generator().manual_seed(1)), torch.ones(4096)
    signs[::3] = -1
    found, expected = x.clone(), x.clone()
    hadamard(found.numpy(), signs.numpy())
    hadamard(expected.numpy(), signs[:512].contiguous().numpy())
    assert torch.equal(found, expected)


def test_subnormal_and_signed_zeros_are_kept() -> None:
    x = torch.zeros(256)
    x[3] = -1e-44
    found = x.clone()
    hadamard(found.numpy(), np.ones(256, np.float32))
    assert bits(found) == bits(definition._hadamard(x[None]))
    assert float(found.abs().min()) > 0
