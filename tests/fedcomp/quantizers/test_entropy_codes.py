from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch

from fedcomp.kernels.viterbi import find_path
from fedcomp.quantizers.entropy_codes import (
    MAX_RUNG,
    RUNGS,
    EntropyCode,
    scalar_code,
    scalar_distortion,
    trellis_code,
    trellis_distortion,
)
from fedcomp.quantizers.trellis import path_signs

ALL = range(1, MAX_RUNG + 1)
KINDS = [trellis_code, scalar_code]


def bits(frequencies: tuple[int, ...]) -> list[float]:
    total = sum(frequencies)
    return [math.log2(total / frequency) for frequency in frequencies]


def test_some_frequencies_and_levels_are_those_of_the_format() -> None:
    assert trellis_code(1).frequencies == (480, 65056)
    assert trellis_code(15).codebook.levels == (-5533 / 4096, 1727 / 4096, 9991 / 4096)
    code = trellis_code(16)
    step = 79519 / 65536
    assert code.codebook.levels == tuple((2 * index + 0.5) * step for index in range(-4, 5))
    assert code.frequencies == (1, 1, 1271, 260593, 755709, 30987, 18, 1, 1)
    assert code.gain == 1 / (1 + 0.26 * step * step)
    scalar = scalar_code(32)
    assert scalar.codebook.levels == tuple(index * 70940 / 65536 for index in range(-6, 7))
    assert scalar.frequencies[6:] == (432206, 253449, 51108, 3544, 85, 1, 1)


# Every decoder must find these, or no payload of another machine's decodes.
@pytest.mark.parametrize(
    ("kind", "digest"),
    [(trellis_code, "05d667040e66eb015acd1d6afe0481f0"), (scalar_code, "5b0aa77c4ce78e400c14e380a8eb8052")],
)
def test_all_codes_are_those_of_the_format(kind: Callable[[int], EntropyCode], digest: str) -> None:
    codes = [(code.codebook.levels, code.frequencies, code.gain) for code in map(kind, ALL)]
    assert hashlib.sha256(repr(codes).encode()).hexdigest()[:32] == digest


@pytest.mark.parametrize("kind", KINDS)
def test_codes_are_complete(kind: Callable[[int], EntropyCode]) -> None:
    for code in map(kind, ALL):
        assert len(code.codebook.levels) == len(code.codebook.prices) == len(code.frequencies)
        assert all(a < b for a, b in pairwise(code.codebook.levels))
        assert all(isinstance(frequency, int) and frequency > 0 for frequency in code.frequencies)
        # The coder counts in 24 bits, and indices are kept in 16.
        assert sum(code.frequencies) < 2**24
        assert len(code.frequencies) <= 2**15


def test_prices_below_one_bit_go_by_what_an_index_takes() -> None:
    for rung in ALL:
        code = trellis_code(rung)
        if rung < RUNGS:
            price = code.codebook.prices[0] / bits(code.frequencies)[0]
            assert price > 0
            assert code.codebook.prices == pytest.approx([price * item for item in bits(code.frequencies)])
        else:
            assert set(code.codebook.prices) == {0.0}


def test_the_entropy_of_a_trellis_rung_is_its_rate() -> None:
    for rung in ALL:
        lengths = bits(trellis_code(rung).frequencies)
        assert sum(length * 2**-length for length in lengths) == pytest.approx(rung / RUNGS, rel=0.005)


def cells(levels: tuple[float, ...]) -> list[tuple[float, float]]:
    """Return each level's cell: its probability, and the integral of z over it."""
    edges = [-math.inf, *((a + b) / 2 for a, b in pairwise(levels)), math.inf]
    above = [math.erfc(edge / math.sqrt(2)) / 2 for edge in edges]
    density = [math.exp(-edge * edge / 2) / math.sqrt(2 * math.pi) for edge in edges]
    return [(above[i] - above[i + 1], density[i] - density[i + 1]) for i in range(len(levels))]


def test_what_a_scalar_rung_takes_is_its_rate_and_its_distortion_is_exact() -> None:
    gains = []
    for rung in ALL:
        code = scalar_code(rung)
        found = cells(code.codebook.levels)
        taken = sum(p * length for (p, _), length in zip(found, bits(code.frequencies), strict=True))
        assert taken == pytest.approx(rung / RUNGS, rel=1e-4)
        inner = sum(m * level for (_, m), level in zip(found, code.codebook.levels, strict=True))
        energy = sum(p * level**2 for (p, _), level in zip(found, code.codebook.levels, strict=True))
        assert 1 - inner**2 / energy == pytest.approx(scalar_distortion(rung), rel=1e-3)
        # What the levels want to be multiplied by is one number for neighbouring rungs, which share blocks.
        gains.append(inner / energy)
    assert all(a == pytest.approx(b, rel=0.03) for a, b in pairwise(gains))


def measure(code: EntropyCode) -> tuple[float, float, float]:
    """Return bits a coordinate, distortion, and what the levels want to be multiplied by, of 2^20 normals, 8 states."""
    z = torch.randn(4, 2**18, generator=torch.Generator().manual_seed(5))
    indices = find_path(z, code.codebook, states=8)
    levels = code.gain * torch.tensor(code.codebook.levels)[indices.int()]
    q, z = (levels * path_signs((indices & 1).to(torch.uint8), 8)).double(), z.double()
    inner, energy = float((q * z).sum()), float((q * q).sum())
    taken = float(torch.tensor(bits(code.frequencies), dtype=torch.float64)[indices.int()].mean())
    return taken, 1 - inner**2 / energy / float((z * z).sum()), inner / energy


# Of 2^20 numbers rate and distortion deviate by about 0.1 %; at a quarter of a bit, where an index in 40 is the rare
# one, the rate does by sqrt(40/2^20) = 0.6 %.
@pytest.mark.parametrize("rung", [4, 8, 9, 12, 15, 16, 17, 20, 24, 32, 40, 64, 128])
def test_rate_distortion_and_gain_of_a_trellis_rung_are_the_measured_ones(rung: int) -> None:
    code = trellis_code(rung)
    taken, distortion, gain = measure(code)
    assert taken == pytest.approx(rung / RUNGS, rel=0.005 if rung >= 8 else 0.012)
    assert distortion == pytest.approx(trellis_distortion(rung), rel=0.01)
    assert gain == pytest.approx(1, abs=0.003)
    bound = 2 ** (-2 * taken)
    assert 10 * math.log10(distortion / bound) < 0.47


# One index in 140 is the rare one: the rate deviates by 1.2 %, the distortion by that of the little that is kept.
def test_the_lowest_rung_is_the_measured_one_too() -> None:
    taken, distortion, _ = measure(trellis_code(1))
    assert taken == pytest.approx(1 / RUNGS, rel=0.03)
    assert 1 - distortion == pytest.approx(1 - trellis_distortion(1), rel=0.03)


def test_more_bits_always_lose_less_and_the_trellis_less_than_the_scalar() -> None:
    for distortion in (trellis_distortion, scalar_distortion):
        ladder = [distortion(rung) for rung in range(MAX_RUNG + 1)]
        assert ladder[0] == 1
        assert all(a > b > 0 for a, b in pairwise(ladder))
        # At high rates a bit more leaves a quarter of the error.
        assert ladder[96] / ladder[80] == pytest.approx(0.25, rel=1e-9)
    for rung in ALL:
        bound = 2 ** (-2 * rung / RUNGS)
        assert bound < trellis_distortion(rung) < scalar_distortion(rung)
        # 0.47 dB; of a fraction of a bit the trellis has less.
        assert trellis_distortion(rung) < 10**0.047 * bound
