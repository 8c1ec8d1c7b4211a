from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.transforms.hadamard import rotate, rotation_signs, unrotate

CPU = torch.device("cpu")


def matrix(n: int) -> torch.Tensor:
    """Sylvester's Hadamard matrix, orthonormal, in float64."""
    h = torch.ones(1, 1, dtype=torch.float64)
    while h.shape[0] < n:
        h = torch.cat([torch.cat([h, h], dim=1), torch.cat([h, -h], dim=1)], dim=0)
    return h / math.sqrt(n)


@pytest.mark.parametrize("n", [2, 8, 256, 512])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_rotation_is_signs_and_hadamard_matrices(n: int, rounds: int) -> None:
    signs = rotation_signs(5, n, rounds=rounds, device=CPU)
    x = torch.randn(3, n, generator=torch.Generator().manual_seed(n))
    expected = x.double()
    for row in signs:
        expected = (expected * row.double()) @ matrix(n)
    torch.testing.assert_close(rotate(x, signs).double(), expected, rtol=0, atol=1e-5)


@given(st.sampled_from([256, 512, 4096, 16384]), st.integers(1, 4), st.integers(0, 2**64 - 1))
def test_a_rotation_keeps_norms_and_can_be_undone(n: int, rounds: int, seed: int) -> None:
    signs = rotation_signs(seed, n, rounds=rounds, device=CPU)
    x = torch.randn(2, n, generator=torch.Generator().manual_seed(seed % 2**31))
    rotated = rotate(x, signs)
    torch.testing.assert_close(rotated.norm(dim=1), x.norm(dim=1), rtol=1e-5, atol=0)
    torch.testing.assert_close(unrotate(rotated, signs), x, rtol=0, atol=1e-5)


def test_integers_rotate_exactly() -> None:
    # Two rounds scale by 1/n, a power of two, so there is nothing to round: the same bits on every machine.
    x = torch.arange(4096.0).reshape(1, 4096)
    signs = rotation_signs(1, 4096, rounds=2, device=CPU)
    assert torch.equal(unrotate(rotate(x, signs), signs), x)


def test_smaller_blocks_use_the_first_signs() -> None:
    signs = rotation_signs(1, 1024, rounds=2, device=CPU)
    x = torch.randn(1, 256, generator=torch.Generator().manual_seed(0))
    assert torch.equal(rotate(x, signs), rotate(x, rotation_signs(1, 256, rounds=2, device=CPU)))


def test_reduced_precision_settings_do_not_reach_it() -> None:
    x = torch.randn(1, 4096, generator=torch.Generator().manual_seed(0))
    signs = rotation_signs(1, 4096, rounds=2, device=CPU)
    expected = rotate(x, signs)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found = rotate(x, signs)
    finally:
        torch.set_float32_matmul_precision(before)
    assert torch.equal(found, expected)
