from __future__ import annotations

import hashlib
from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.kernels.viterbi import find_path
from fedcomp.quantizers import codebook
from fedcomp.quantizers.trellis import STATES, branches, lanes, path_signs
from fedcomp.quantizers.trellis_levels import DISTORTION, trellis_codebook

# Ungerboeck, 1987, table I, in octal: h0 and h1. They decide what a payload decodes to.
TAPS = {4: (5, 2), 8: (13, 4), 16: (23, 4), 32: (45, 10), 64: (103, 24), 128: (235, 126), 256: (515, 362)}
BITS = range(1, 9)


def delays(octal: int) -> list[int]:
    number = int(str(octal), 8)
    return [delay for delay in range(1, 9) if number >> delay & 1]


def simulate(parities: list[int], states: int) -> list[int]:
    """Run the shift register a bit at a time: its input is the parity plus the taps of h0, the sign bit those of h1."""
    h0, h1 = (delays(polynomial) for polynomial in TAPS[states])
    inputs: list[int] = []
    signs = []
    for parity in parities:
        past = [0] * 9 + inputs
        signs.append(1 - 2 * (sum(past[-delay] for delay in h1) % 2))
        inputs.append((parity + sum(past[-delay] for delay in h0)) % 2)
    return signs


def random_parities(rows: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, 2, (rows, length), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)


def test_the_taps_are_those_of_the_format() -> None:
    assert tuple(TAPS) == STATES


@pytest.mark.parametrize(("length", "count"), [(0, 1), (1, 1), (2047, 1), (2048, 2), (16384, 16), (2**18, 256)])
def test_a_lane_has_at_least_1024_coordinates(length: int, count: int) -> None:
    assert lanes(length) == count


@given(st.sampled_from(STATES), st.integers(0, 60), st.integers(0, 2**31))
def test_signs_are_those_of_a_shift_register(states: int, length: int, seed: int) -> None:
    parities = random_parities(2, length, seed)
    assert path_signs(parities, states).tolist() == [simulate(row, states) for row in parities.tolist()]


@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("length", [1023, 2048, 3500, 5 * 1024 + 3])
def test_interleaved_lanes_each_have_a_register_of_their_own(states: int, length: int) -> None:
    parities = random_parities(1, length, states)[0].tolist()
    signs = path_signs(torch.tensor([parities], dtype=torch.uint8), states)[0].tolist()
    count = max(1, length // 1024)
    for lane in range(count):
        assert signs[lane::count] == simulate(parities[lane::count], states)


def test_parities_are_left_as_they_are() -> None:
    parities = random_parities(1, 100)
    before = parities.clone()
    path_signs(parities, 8)
    assert torch.equal(parities, before)


@pytest.mark.parametrize("states", STATES)
def test_walking_the_trellis_gives_the_same_signs(states: int) -> None:
    parities = random_parities(1, 300, states)[0].tolist()
    entered = branches(states)
    state, signs = 0, []
    for parity in parities:
        # A state leads to two others, one for each parity.
        following = [((state << 1) | bit) % states for bit in (0, 1)]
        leading = [entered[target][state >= states // 2] for target in following]
        assert sorted(branch >> 1 for branch in leading) == [0, 1]
        chosen = [branch >> 1 for branch in leading].index(parity)
        signs.append(1 - 2 * (leading[chosen] & 1))
        state = following[chosen]
    assert signs == path_signs(torch.tensor([parities], dtype=torch.uint8), states)[0].tolist()


def normals(rows: int, seed: int) -> torch.Tensor:
    return torch.randn(rows, 2**18, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("bits", BITS)
def test_there_are_two_to_the_bits_levels_in_order(bits: int) -> None:
    book = trellis_codebook(bits)
    assert len(book.levels) == 2**bits
    assert all(a < b for a, b in pairwise(book.levels))
    assert set(book.prices) == {0.0}


def test_levels_are_those_of_the_format() -> None:
    # A payload decodes to them.
    assert trellis_codebook(1).levels == (-79241 / 65536, 22326 / 65536)
    levels = repr([trellis_codebook(bits).levels for bits in BITS])
    assert hashlib.sha256(levels.encode()).hexdigest()[:32] == "f5ab70c566ca5915c0b7e58dc0af4b32"


@pytest.mark.parametrize("bits", BITS)
def test_each_level_is_the_mean_of_what_is_quantized_to_it(bits: int) -> None:
    # The mean of k values deviates by s/sqrt(k) with s their own deviation; the level, a mean over 16 times as many
    # numbers, by a quarter of it. Of 510 levels in all none exceeds five of these but once in 5,000 samples.
    z = normals(1, 1)
    book = trellis_codebook(bits)
    indices = find_path(z, book, states=8)
    meant = (z * path_signs((indices & 1).to(torch.uint8), 8)).double()
    seen = 0
    for index, level in enumerate(book.levels):
        values = meant[indices == index]
        if len(values) > 30:
            seen += 1
            assert abs(float(values.mean()) - level) < 5 * float(values.std()) / len(values) ** 0.5
    assert seen >= 0.9 * 2**bits


# Of 2^21 numbers the error deviates by 0.05 % at one bit and 0.25 % at six; beyond that it sits in the few largest
# ones: half a percent.
@pytest.mark.parametrize("bits", BITS)
def test_the_distortion_is_the_measured_one(bits: int) -> None:
    z = normals(8, 2)
    book = trellis_codebook(bits)
    indices = find_path(z, book, states=8)
    signs = path_signs((indices & 1).to(torch.uint8), 8)
    q, z = (torch.tensor(book.levels)[indices.int()] * signs).double(), z.double()
    measured = 1 - float((q * z).sum()) ** 2 / float((q * q).sum() * (z * z).sum())
    assert measured == pytest.approx(DISTORTION[bits], rel=0.01 if bits < 7 else 0.02)


def test_the_trellis_takes_a_quarter_off_the_error_of_lloyd_max() -> None:
    assert DISTORTION[0] == 1
    assert DISTORTION[1] < 0.85 * codebook.DISTORTION[1]
    for bits in range(2, 9):
        assert DISTORTION[bits] < 0.75 * codebook.DISTORTION[bits]
