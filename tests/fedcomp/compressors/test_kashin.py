from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest
import torch

import fedcomp
from fedcomp.coding.bitpack import unpack_bits
from fedcomp.compressors import kashin
from fedcomp.compressors.kashin import Kashin
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.metrics import t_statistic, vnmse
from fedcomp.seeds import uniforms
from fedcomp.transforms.hadamard import rotation_signs
from fedcomp.transforms.kashin import kashin_coefficients
from fedcomp.wire import pack, unpack

DIM = 2**16
# Of the authors' three shrinking levels, LogNormal(0, 1), two coefficients a coordinate: measured by others.
PUBLISHED = {1: 8.62, 2: 0.708, 3: 0.126, 4: 0.0272}


def gaussian(dim: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(dim, generator=torch.Generator().manual_seed(seed))


def error(spec: str, x: torch.Tensor, seed: int = 1) -> float:
    return vnmse(fedcomp.decode(fedcomp.compressor(spec).encode(x, seed=seed), seed=seed), x)


@pytest.fixture
def threads_restored() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


# An error spread over 65,536 coordinates deviates by half a percent.
@pytest.mark.parametrize(
    ("spec", "most"),
    [
        ("kashin:bits=1", 0.70),
        ("kashin:bits=2", 0.083),
        ("kashin:bits=3", 0.0168),
        ("kashin:bits=4", 0.0040),
        ("kashin:bits=8", 1.4e-5),
        ("kashin:bits=1,expansion=4", 0.19),
        ("kashin:bits=1,expansion=8", 0.073),
    ],
)
def test_the_error_is_small_whatever_the_vector(spec: str, most: float) -> None:
    sparse = torch.zeros(DIM)
    sparse[:3] = torch.tensor([3.0, 1.0, 1.0])
    for x in (gaussian(DIM), gaussian(DIM).exp(), torch.ones(DIM), sparse):
        assert error(spec, x) < most


@pytest.mark.parametrize("bits", PUBLISHED)
def test_the_published_error_is_several_times_larger(bits: int) -> None:
    assert error(f"kashin:bits={bits}", gaussian(DIM).exp()) < PUBLISHED[bits] / 7


@pytest.mark.parametrize(("spec", "dim"), [("kashin:bits=2", 24_575), ("kashin:bits=1,expansion=4", 20_001)])
def test_smaller_blocks_at_the_end_hardly_show(spec: str, dim: int) -> None:
    # 24,575 has a block of every size from 8192 to 256, two of that. One error deviates by a percent.
    expected = fedcomp.compressor(spec).expected_vnmse(dim)
    errors = [error(spec, gaussian(dim, seed), seed) for seed in range(20)]
    assert sum(errors) / 20 == pytest.approx(expected, rel=0.02)


def test_no_error_is_foretold_of_short_vectors() -> None:
    assert fedcomp.compressor("kashin").expected_vnmse(16_383) is None


@pytest.mark.parametrize("bits", range(1, 9))
def test_every_rate_is_kept(bits: int) -> None:
    payload = fedcomp.compressor(f"kashin:bits={bits}").encode(gaussian(100_003), seed=1)
    assert 2 * bits <= fedcomp.bits_per_coordinate(payload) <= 1.01 * 2 * bits


@pytest.mark.parametrize(
    ("spec", "dim", "body"),
    [
        # A reach and 512 coefficients; a remainder costs 4 bytes a coordinate or as much as a block.
        ("kashin:bits=2", 256, 4 + 128),
        ("kashin:bits=2", 256 + 33, 4 + 128 + 4 * 33),
        ("kashin:bits=2", 256 + 34, 2 * (4 + 128)),
        ("kashin:bits=2", 3, 12),
        ("kashin:bits=8,expansion=8", 2048 + 255, 4 + 16384 + 4 * 255),
        ("kashin:bits=1,expansion=8", 4096 + 256, 3 * 4 + 4096 + 256),
    ],
)
def test_a_remainder_travels_in_whichever_way_is_shorter(spec: str, dim: int, body: int) -> None:
    x = gaussian(dim)
    payload = fedcomp.compressor(spec).encode(x, seed=1)
    header, found = unpack(payload, seed=1)
    assert len(found) == body
    if raw := header.params[-1]:
        assert torch.equal(fedcomp.decode(payload, seed=1)[-raw:], x[-raw:])


def test_codes_are_coefficients_rounded_with_noise_of_their_own() -> None:
    x = gaussian(512)
    x *= 0.7 / x.abs().max()
    _, body = unpack(fedcomp.compressor("kashin:bits=3,expansion=4").encode(x, seed=9), seed=9)
    signs = rotation_signs(9, 2048, rounds=2, device=x.device)
    coefficients = kashin_coefficients(x[None], signs, expansion=4)[0]
    (reach,) = struct.unpack("<f", body[:4])
    codes = unpack_bits(torch.frombuffer(bytearray(body[4:]), dtype=torch.uint8)[None], 3, 2048)[0]
    assert reach == float(coefficients.abs().max())
    positions = (coefficients / reach + 1) * 3.5
    assert torch.equal(codes.float(), torch.floor(positions + torch.from_numpy(uniforms(9, 2048))).clamp(0, 7))


# T of 2048 coordinates deviates by 3 %; a bias of a tenth of the error would add 1 at R = 100.
@pytest.mark.parametrize("spec", ["kashin:bits=1", "kashin:bits=1,expansion=8", "kashin:bits=8"])
@pytest.mark.parametrize("name", ["gaussian", "three", "constant"])
def test_errors_average_out(spec: str, name: str) -> None:
    x = {"gaussian": gaussian(2048), "three": torch.zeros(2048), "constant": torch.ones(2048)}[name]
    if name == "three":
        x[-3:] = torch.tensor([3.0, 1.0, 1.0])
    codec = fedcomp.compressor(spec)
    seeds = [fedcomp.derive_seed(b"kashin", index, 0, "rotation") for index in range(100)]
    assert 0.85 < t_statistic([fedcomp.decode(codec.encode(x, seed=s), seed=s) for s in seeds], x) < 1.15


def test_subnormal_numbers_keep_their_precision() -> None:
    # 1e-42 is 714 of the smallest steps of float32 and an eight-bit level three of them.
    assert error("kashin:bits=8", torch.full((2048,), 1e-42)) < 2e-5


def test_numbers_below_float32s_smallest_step_stay_unbiased() -> None:
    # The coefficients are a sixth of the smallest step and the reach is one. The estimate of a coordinate deviates by
    # 0.7 steps, the mean of 100 by 0.07.
    step = 2.0**-149
    x = torch.zeros(2048)
    x[9] = 7 * step
    codec = fedcomp.compressor("kashin:bits=2")
    mean = sum(float(fedcomp.decode(codec.encode(x, seed=seed), seed=seed)[9]) for seed in range(100)) / 100
    assert mean / step == pytest.approx(7, abs=0.5)


def test_noise_that_rounds_beyond_the_last_level_is_held_there(monkeypatch: pytest.MonkeyPatch) -> None:
    # 255 and noise of 1 − 2^-24 are 256 in float32, which would be packed as zero.
    monkeypatch.setattr(kashin, "round_stochastically", lambda values, **_: torch.full_like(values, 256.0))
    _, body = unpack(fedcomp.compressor("kashin:bits=8").encode(gaussian(256), seed=1), seed=1)
    assert bytes(body[4:]) == b"\xff" * 512


def test_a_payload_decodes_to_the_same_on_any_number_of_threads(threads_restored: None) -> None:
    payload = fedcomp.compressor("kashin:bits=2").encode(gaussian(100_003), seed=1)
    found = []
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found.append(fedcomp.decode(payload, seed=1))
    assert torch.equal(*found)


def hostile(params: tuple[int, int, int], body: bytes, dim: int = 259) -> bytes:
    return pack(scheme=Kashin.number, dim=dim, params=bytes(params), body=body, seed=3)


@pytest.mark.parametrize("params", [(0, 2, 3), (9, 2, 3), (2, 0, 3), (2, 3, 3), (2, 16, 3), (2, 2, 4), (2, 2, 255)])
def test_impossible_parameters_are_refused(params: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidParams, match="allowed: bits 1…8, expansion 2, 4 or 8, raw 0 or 3"):
        fedcomp.decode(hostile(params, bytes(4 + 128 + 12)), seed=3)


@pytest.mark.parametrize("params", [(1, 2, 3), (3, 2, 3), (2, 4, 3), (2, 2, 0)])
def test_parameters_of_another_body_are_refused(params: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidParams, match="bytes of body"):
        fedcomp.decode(hostile(params, bytes(4 + 128 + 12)), seed=3)


@pytest.mark.parametrize("params", [b"", b"\2\2", b"\2\2\3\0"])
def test_parameters_of_another_length_are_refused(params: bytes) -> None:
    payload = pack(scheme=Kashin.number, dim=259, params=params, body=bytes(144), seed=3)
    with pytest.raises(InvalidParams, match="3 bytes of parameters"):
        fedcomp.decode(payload, seed=3)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [0, 132])
def test_a_reach_or_raw_coordinate_that_is_not_finite_is_refused(bad: float, place: int) -> None:
    body = bytearray(144)
    struct.pack_into("<f", body, place, bad)
    with pytest.raises(NonFinite):
        fedcomp.decode(hostile((2, 2, 3), bytes(body)), seed=3)


def test_a_reach_below_zero_is_refused() -> None:
    with pytest.raises(InvalidParams, match="below zero"):
        fedcomp.decode(hostile((2, 2, 3), struct.pack("<f", -1.0) + bytes(140)), seed=3)


@pytest.mark.parametrize("byte", [0, 255, 27])
def test_the_largest_reach_decodes_to_finite_values(byte: int) -> None:
    body = struct.pack("<f", torch.finfo(torch.float32).max) + bytes([byte]) * 128 + bytes(12)
    assert bool(torch.isfinite(fedcomp.decode(hostile((2, 2, 3), body), seed=3)).all())
