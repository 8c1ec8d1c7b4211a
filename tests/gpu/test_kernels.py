"""The Triton kernels on a CUDA device against the torch reference on the CPU."""

from __future__ import annotations

import pytest
import torch

from fedcomp.bench.gpu_bandwidth import sweep
from fedcomp.kernels import gpu, reference
from fedcomp.transforms.hadamard import rotation_signs

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
    pytest.mark.skipif(not gpu.is_installed(), reason="Triton is not installed"),
]

SIZES = [2**log_n for log_n in range(8, 16)]
RATES = [(1, 0), (1, 248), (0, 8), (8, 0), (7, 8), (2, 200), (4, 80), (5, 128)]


def drawn(m: int, n: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(n)
    sizes = torch.tensor([1.0, 0.0, 1e-42, 1e-25, 1e25, 6e37]).repeat(m)[:m]
    return torch.randn((m, n), generator=generator) * sizes[:, None]


def signs_of(n: int, rounds: int) -> torch.Tensor:
    return rotation_signs(5, n, rounds=rounds, device=torch.device("cpu"))


@pytest.mark.parametrize("rounds", [1, 2, 3])
@pytest.mark.parametrize("n", SIZES)
def test_rotations_have_the_references_bits(n: int, rounds: int) -> None:
    blocks, signs = drawn(7, n), signs_of(2 * n, rounds)
    found = gpu.rotate_rows(blocks.cuda(), signs.cuda())
    assert torch.equal(found.cpu(), reference.rotate_rows(blocks, signs))
    found = gpu.unrotate_rows(blocks.cuda(), signs.cuda())
    assert torch.equal(found.cpu(), reference.unrotate_rows(blocks, signs))


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize(("low", "k"), RATES)
@pytest.mark.parametrize("n", SIZES)
def test_blocks_are_encoded_as_by_the_reference(n: int, low: int, k: int, unbiased: bool) -> None:
    blocks, signs, means = drawn(12, n), signs_of(n, 2), torch.linspace(-1, 1, 12)
    scales, codes = gpu.encode_rows(blocks.cuda(), means.cuda(), signs.cuda(), low=low, k=k, unbiased=unbiased)
    expected_scales, expected_codes = reference.encode_rows(blocks, means, signs, low=low, k=k, unbiased=unbiased)
    assert torch.allclose(scales.cpu(), expected_scales, rtol=2e-6, atol=2.0**-148)
    # A coordinate at a boundary may fall into the neighbouring cell; a zero block's indices say nothing.
    differing = (codes.cpu() != expected_codes)[expected_scales != 0]
    assert differing.float().mean() < 1e-3


@pytest.mark.parametrize(("low", "k"), RATES)
@pytest.mark.parametrize("n", SIZES)
def test_decoded_blocks_have_the_references_bits(n: int, low: int, k: int) -> None:
    generator = torch.Generator().manual_seed(n + low + k)
    codes = torch.randint(0, 256, (6, (low * n + k) // 8), generator=generator, dtype=torch.uint8)
    scales = torch.tensor([1.0, 0.0, 1e-42, 1e-25, 1e25, 3e38])
    means, signs = torch.linspace(-1, 1, 6), signs_of(n, 2)
    there = [tensor.cuda() for tensor in (codes, scales, means, signs)]
    out, found = torch.empty((6, n)), torch.empty((6, n), device="cuda")
    reference.decode_rows(codes, scales, means, signs, low=low, k=k, out=out)
    gpu.decode_rows(*there, low=low, k=k, out=found)
    assert torch.equal(found.cpu(), out)
    into = torch.randn((6, n), generator=generator, dtype=torch.float64)
    summed = into.cuda()
    gpu.accumulate_rows(*there, low=low, k=k, into=summed, weight=3.0)
    # The product of a float32 and 3 is exact in float64, so one rounding is left with or without a fused operation.
    assert torch.equal(summed.cpu(), into + 3.0 * out.double())


def test_bandwidth_is_measured_on_the_device() -> None:
    device = torch.device("cuda")
    found = list(sweep(gpu, signs_of(16384, 2).cuda(), bits=(1, 2, 4), dim=2**20, repeats=2, device=device))
    assert len(found) == 10
    assert all(item.ms > 0 for item in found)
