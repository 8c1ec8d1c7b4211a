"""The compiled kernels against the reference.

Decoding is the same to the bit. Encoding adds float64 sums in another order: a scale may differ in its last bit, and
a code where z is within rounding of a boundary.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedcomp.coding.bitpack import unpack_bits
from fedcomp.kernels import cpu, reference
from fedcomp.quantizers import codebook
from fedcomp.transforms.hadamard import rotate, rotation_signs, unrotate

CPU = torch.device("cpu")
SIZES = [2**k for k in range(8, 19)]
RATES = [(0, 8), (0, 136), (1, 0), (1, 64), (2, 0), (2, 8), (3, 0), (4, 128), (5, 0), (6, 248), (7, 0), (7, 8), (8, 0)]
MAGNITUDES = [1.0, 1e25, 1e-25, 1e-42, 2.0**40, 2.0**-41, 2.0**41]


class Case(NamedTuple):
    blocks: Tensor
    means: Tensor
    signs: Tensor


def case(n: int, *, rounds: int = 2, m: int = 3, magnitude: float = 1.0, mean: float = 0.0, seed: int = 1) -> Case:
    generator = torch.Generator().manual_seed(seed)
    blocks = (torch.randn(m, n, generator=generator) * magnitude).float()
    means = torch.full((m,), mean)
    return Case(blocks + mean, means, rotation_signs(seed, n, rounds=rounds, device=CPU))


def same_bits(left: Tensor, right: Tensor) -> bool:
    return torch.equal(left.view(torch.int32), right.view(torch.int32))


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
@pytest.mark.parametrize("n", SIZES)
def test_rotations_have_the_same_bits(n: int, rounds: int) -> None:
    blocks, _, signs = case(n, rounds=rounds, m=2)
    assert same_bits(cpu.rotate_rows(blocks, signs), rotate(blocks, signs))
    assert same_bits(cpu.unrotate_rows(blocks, signs), unrotate(blocks, signs))


@pytest.mark.parametrize(("n", "dtype"), [(128, torch.float32), (2**19, torch.float32), (256, torch.float64)])
def test_what_the_kernels_cannot_do_the_reference_does(n: int, dtype: torch.dtype) -> None:
    blocks, _, signs = case(n, m=1)
    assert torch.equal(cpu.rotate_rows(blocks.to(dtype), signs), rotate(blocks.to(dtype), signs))
    assert torch.equal(cpu.unrotate_rows(blocks.to(dtype), signs), unrotate(blocks.to(dtype), signs))


def test_rotations_leave_their_input_alone_and_take_any_stride() -> None:
    blocks, _, signs = case(256, m=4)
    before = blocks.clone()
    assert same_bits(cpu.rotate_rows(blocks.T.contiguous().T[::2], signs), rotate(blocks[::2], signs))
    assert torch.equal(blocks, before)


def check_encoding(given_case: Case, low: int, k: int, *, unbiased: bool) -> None:
    blocks, means, signs = given_case
    n = blocks.shape[1]
    scales, codes = cpu.encode_rows(blocks, means, signs, low=low, k=k, unbiased=unbiased)
    expected, expected_codes = reference.encode_rows(blocks, means, signs, low=low, k=k, unbiased=unbiased)
    assert codes.shape == expected_codes.shape == (len(blocks), (low * n + k) // 8)
    if not torch.equal(codes, expected_codes):
        check_differences(given_case, codes, expected_codes, low, k)
    up, down = (torch.nextafter(expected, torch.tensor(bound)) for bound in (torch.inf, -torch.inf))
    assert bool(((scales >= down) & (scales <= up)).all())


def check_differences(given_case: Case, codes: Tensor, expected: Tensor, low: int, k: int) -> None:
    """Where indices differ, z is within rounding of the boundary between them."""
    blocks, means, signs = given_case
    n = blocks.shape[1]
    rows = (blocks - means[:, None]).double()
    y = rotate((rows / rows.abs().amax(dim=1, keepdim=True)).float(), signs).double()
    z = y * (n**0.5) / y.norm(dim=1, keepdim=True)
    cut = (low + 1) * k // 8
    for part, start, stop, bits in ((slice(cut), 0, k, low + 1), (slice(cut, None), k, n, low)):
        if bits and stop > start:
            left, right = (unpack_bits(item[:, part], bits, stop - start).long() for item in (codes, expected))
            different = left != right
            assert bool(((left - right).abs() <= 1).all())
            edges = codebook.boundaries(bits, device=CPU).double()[torch.minimum(left, right)[different]]
            assert bool(((z[:, start:stop][different] - edges).abs() < 1e-5).all())


@pytest.mark.parametrize("unbiased", [True, False])
@pytest.mark.parametrize(("low", "k"), RATES)
def test_codes_and_scales(low: int, k: int, unbiased: bool) -> None:
    for n in (256, 2048):
        check_encoding(case(n), low, k, unbiased=unbiased)


@pytest.mark.parametrize("n", SIZES)
def test_codes_and_scales_of_every_size(n: int) -> None:
    check_encoding(case(n, m=2), 2, n // 2, unbiased=True)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
def test_codes_and_scales_of_any_rounds(rounds: int) -> None:
    for n in (256, 512):
        check_encoding(case(n, rounds=rounds), 3, 0, unbiased=True)


@pytest.mark.parametrize("magnitude", MAGNITUDES)
def test_codes_and_scales_of_any_magnitude(magnitude: float) -> None:
    for mean in (0.0, 3 * magnitude):
        check_encoding(case(512, magnitude=magnitude, mean=mean), 2, 64, unbiased=True)


@settings(max_examples=30)
@given(
    st.sampled_from(SIZES[:5]),
    st.sampled_from(RATES),
    st.integers(1, 4),
    st.booleans(),
    st.sampled_from(MAGNITUDES),
    st.integers(0, 2**31 - 1),
)
def test_codes_and_scales_of_anything(
    n: int, rate: tuple[int, int], rounds: int, unbiased: bool, magnitude: float, seed: int
) -> None:
    check_encoding(case(n, rounds=rounds, magnitude=magnitude, seed=seed), *rate, unbiased=unbiased)


@pytest.mark.parametrize("unbiased", [True, False])
def test_zero_rows_have_scale_zero_and_sparse_rows_their_own(unbiased: bool) -> None:
    blocks, means, signs = case(256, m=4)
    blocks[0], blocks[2], blocks[3] = 0.0, 0.0, -0.0
    blocks[2, 7] = 1e-45
    check_encoding(Case(blocks, means, signs), 2, 8, unbiased=unbiased)
    scales, _ = cpu.encode_rows(blocks, means, signs, low=2, k=8, unbiased=unbiased)
    assert scales[0] == scales[3] == 0
    assert scales[1] > 0


def test_rows_beyond_float32_have_no_finite_scale() -> None:
    limit = torch.finfo(torch.float32).max
    blocks, _, signs = case(256, m=2)
    blocks[0] = -limit
    scales, codes = cpu.encode_rows(blocks, torch.tensor([limit, 0.0]), signs, low=8, k=0, unbiased=True)
    assert not bool(torch.isfinite(scales[0]))
    assert bool(torch.isfinite(scales[1]))
    assert codes.shape == (2, 256)


def coded(
    n: int, low: int, k: int, *, rounds: int = 2, m: int = 3, seed: int = 1
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (m, (low * n + k) // 8), generator=generator).to(torch.uint8)
    scales, means = torch.randn(2, m, generator=generator)
    return codes, scales, means, rotation_signs(seed, n, rounds=rounds, device=CPU)


def check_decoding(inputs: tuple[Tensor, ...], n: int, low: int, k: int, weight: float = 1 / 3) -> None:
    m = len(inputs[0])
    found, expected = torch.full((2, m, n), torch.nan)
    cpu.decode_rows(*inputs[:4], low=low, k=k, out=found)
    reference.decode_rows(*inputs[:4], low=low, k=k, out=expected)
    assert same_bits(found, expected)
    sums = torch.randn(m, n, dtype=torch.float64, generator=torch.Generator().manual_seed(n))
    added, wanted, referred = sums.clone(), sums.clone(), sums.clone()
    cpu.accumulate_rows(*inputs[:4], low=low, k=k, into=added, weight=weight)
    wanted.add_(expected, alpha=weight)
    assert torch.equal(added, wanted)
    reference.accumulate_rows(*inputs[:4], low=low, k=k, into=referred, weight=weight)
    assert torch.equal(referred, wanted)


@pytest.mark.parametrize("rounds", [1, 2, 3, 4])
@pytest.mark.parametrize("n", SIZES)
def test_decoding_has_the_same_bits_for_every_size(n: int, rounds: int) -> None:
    check_decoding(coded(n, 1, 128, rounds=rounds, m=1), n, 1, 128)


@pytest.mark.parametrize(("low", "k"), RATES)
def test_decoding_has_the_same_bits_at_every_rate(low: int, k: int) -> None:
    check_decoding(coded(1024, low, k), 1024, low, k)


@settings(max_examples=30)
@given(st.sampled_from(RATES), st.integers(0, 2**31 - 1), st.floats(0, 2**53))
def test_decoding_has_the_same_bits_whatever_the_codes(rate: tuple[int, int], seed: int, weight: float) -> None:
    check_decoding(coded(256, *rate, seed=seed), 256, *rate, weight=weight)


def test_estimates_are_clamped_to_the_finite_range() -> None:
    codes, _, means, signs = coded(256, 2, 0)
    scales = torch.tensor([3.4e38, -3.4e38, 1e-45])
    check_decoding((codes, scales, means, signs), 256, 2, 0)
    out = torch.empty(3, 256)
    cpu.decode_rows(codes, scales, means, signs, low=2, k=0, out=out)
    assert out[:2].abs().max() == torch.finfo(torch.float32).max


@pytest.mark.parametrize("mean", [0.0, 1.5])
@pytest.mark.parametrize("n", [256, 512, 16384])
def test_moments(n: int, mean: float) -> None:
    blocks, _, _ = case(n, m=3, mean=1.0)
    means = torch.tensor([mean, 0.0, mean])
    sums, energies = cpu.row_moments(blocks, means)
    expected_sums, expected_energies = reference.row_moments(blocks, means)
    torch.testing.assert_close(sums, expected_sums, rtol=0, atol=1e-12 * n)
    torch.testing.assert_close(energies, expected_energies, rtol=1e-12, atol=0)
    # Integers sum exactly in any order.
    whole = torch.arange(3 * n).view(3, n).float() % 251
    assert all(map(torch.equal, cpu.row_moments(whole, means), reference.row_moments(whole, means)))


@pytest.mark.parametrize("n", [2, 100, 256, 1000])
def test_products(n: int) -> None:
    left, right = torch.randn(2, 5, n, generator=torch.Generator().manual_seed(n))
    expected = reference.row_products(left, right)
    torch.testing.assert_close(expected, (left.double() * right.double()).sum(dim=1), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(cpu.row_products(left, right), expected, rtol=1e-12, atol=1e-12 * n)
    # A part of wider rows is not contiguous.
    assert torch.equal(
        cpu.row_products(left[:, : n // 2], right[:, : n // 2]),
        cpu.row_products(left[:, : n // 2].clone(), right[:, : n // 2].clone()),
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_any_number_of_threads_gives_the_same_bits(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, means, signs = case(256, m=11)
    whole = cpu.encode_rows(blocks, means, signs, low=2, k=64, unbiased=True)
    moments, products = cpu.row_moments(blocks, means), cpu.row_products(blocks, blocks)
    monkeypatch.setattr(cpu, "_PIECE", 512)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    found = cpu.encode_rows(blocks, means, signs, low=2, k=64, unbiased=True)
    assert all(map(torch.equal, found, whole))
    assert all(map(torch.equal, cpu.row_moments(blocks, means), moments))
    assert torch.equal(cpu.row_products(blocks, blocks), products)
    assert same_bits(cpu.rotate_rows(blocks, signs), rotate(blocks, signs))
    assert same_bits(cpu.unrotate_rows(blocks, signs), unrotate(blocks, signs))
    check_decoding((found[1], found[0], means, signs), 256, 2, 64)


def test_what_a_thread_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_PIECE", 256)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)

    def fail(rows: slice) -> None:
        raise ZeroDivisionError(rows.start)

    with pytest.raises(ZeroDivisionError):
        cpu.deal_out(torch.zeros(4, 256), fail)
