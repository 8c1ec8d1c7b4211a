from __future__ import annotations

import math
import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import fedcomp
from fedcomp.coding import eliasfano
from fedcomp.compressors.quicfl import BLOCK, ROUNDS
from fedcomp.errors import InvalidParams, NonFinite, PayloadError
from fedcomp.metrics import vnmse
from fedcomp.quantizers.quicfl import DISTORTION, OUTLIERS, reach
from fedcomp.transforms.hadamard import rotate, rotation_signs, unrotate
from fedcomp.wire import HEADER_BYTES, pack, read_header

BITS = range(1, 9)
SEED = 11


def gaussian(dim: int, seed: int = 0) -> Tensor:
    return torch.randn(dim, generator=torch.Generator().manual_seed(seed))


def lognormal(dim: int, seed: int = 0) -> Tensor:
    return gaussian(dim, seed).exp()


def heavy_tailed(dim: int, seed: int = 0) -> Tensor:
    return gaussian(dim, seed) / gaussian(dim, seed + 1000)


def encode(bits: int, x: Tensor, seed: int = SEED) -> bytes:
    return fedcomp.compressor("quicfl", bits=bits).encode(x, seed=seed)


def roundtrip(bits: int, x: Tensor, seed: int = SEED) -> Tensor:
    return fedcomp.decode(encode(bits, x, seed), seed=seed)


def turn(x: Tensor, seed: int = SEED, *, back: bool = False) -> Tensor:
    """Rotate a vector of whole blocks as the encoder does, or back."""
    signs = rotation_signs(seed, BLOCK, rounds=ROUNDS, device=x.device)
    blocks = x.view(-1, min(BLOCK, x.numel()))
    return (unrotate(blocks, signs) if back else rotate(blocks, signs)).reshape(-1)


def num_outliers(payload: bytes) -> int:
    return int(struct.unpack("<BBI", read_header(payload).params)[2])


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("draw", [gaussian, lognormal, heavy_tailed])
def test_the_error_is_the_law_s_on_any_vector(bits: int, draw: Callable[[int, int], Tensor]) -> None:
    # One payload's error deviates by 3.7 % at one bit and 65,536 coordinates, less at more bits and more where a few
    # coordinates hold all energy, as in the heavy tail: the mean of 12 by 1.1 % there, by 2.3 % in the tail.
    expected = fedcomp.compressor("quicfl", bits=bits).expected_vnmse(65_536)
    errors = [vnmse(roundtrip(bits, draw(65_536, seed), seed), draw(65_536, seed)) for seed in range(12)]
    slack = 0.03 if bits < 3 else 0.02
    assert sum(errors) / 12 == pytest.approx(expected, rel=3 * slack if draw is heavy_tailed else slack)


@pytest.mark.parametrize(("bits", "dim"), [(4, 4096), (4, 4096 + 128), (8, 4096 + 60), (4, 20_000)])
def test_the_law_holds_from_4096_coordinates(bits: int, dim: int) -> None:
    # At four bits and 4,096 coordinates one error deviates by 3.5 %, the mean of 150 by 0.3 %. A padded tail of 128 and
    # a raw one of 60 take 1.5 % of the error away.
    expected = fedcomp.compressor("quicfl", bits=bits).expected_vnmse(dim)
    errors = [vnmse(roundtrip(bits, gaussian(dim, seed), seed), gaussian(dim, seed)) for seed in range(150)]
    assert sum(errors) / 150 == pytest.approx(expected, rel=0.012)


def test_no_law_is_promised_for_short_vectors() -> None:
    codec = fedcomp.compressor("quicfl:bits=3")
    assert codec.expected_vnmse(4095) is None
    assert codec.expected_vnmse(4096) == DISTORTION[3]


@pytest.mark.parametrize("bits", BITS)
def test_the_nominal_rate_counts_outliers(bits: int) -> None:
    nominal = fedcomp.compressor("quicfl", bits=bits).nominal_bits
    n = 2**20
    count = int(OUTLIERS[bits] * n)
    assert nominal == pytest.approx(bits + (32 * count + 8 * eliasfano.encoded_bytes(count, n)) / n, rel=1e-4)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("dim", [65_536, 100_003])
@pytest.mark.parametrize("draw", [gaussian, lognormal, heavy_tailed])
def test_no_payload_exceeds_the_rate(bits: int, dim: int, draw: Callable[[int, int], Tensor]) -> None:
    nominal = fedcomp.compressor("quicfl", bits=bits).nominal_bits
    assert nominal is not None
    for seed in range(5):
        assert 8 * len(encode(bits, draw(dim, seed), seed)) <= 1.01 * nominal * dim


@pytest.mark.parametrize("bits", BITS)
def test_outliers_are_exact(bits: int) -> None:
    x = gaussian(4 * BLOCK, seed=bits)
    y, decoded = turn(x), turn(roundtrip(bits, x))
    z = y.view(4, -1) / y.view(4, -1).square().mean(dim=1, keepdim=True).sqrt()
    outliers = (z.abs() > 1.00001 * reach(bits)).view(-1)
    assert 0 < int(outliers.sum()) <= num_outliers(encode(bits, x))
    # Only rounding by the scales and the rotations to and fro remains; it is relative to the largest values.
    torch.testing.assert_close(decoded[outliers], y[outliers], rtol=1e-5, atol=3e-5)
    assert float((decoded - y).abs().max()) > 1e-2


@pytest.mark.parametrize("bits", [4, 8])
def test_too_many_outliers_raise_the_scale_and_add_no_bias(bits: int) -> None:
    # A vector made for the seed: 400 rotated coordinates that are four times their block's root mean square.
    y = gaussian(4 * BLOCK)
    y[:400] = 5.0
    x = turn(y, back=True)
    payload = encode(bits, x)
    nominal = fedcomp.compressor("quicfl", bits=bits).nominal_bits
    assert nominal is not None
    assert 8 * len(payload) <= 1.01 * nominal * 4 * BLOCK
    sent = num_outliers(payload)
    assert sent < 300
    errors = (turn(fedcomp.decode(payload, seed=SEED)) - y)[:400].double()
    errors = errors[errors.abs().sort().indices[sent:]]
    # A scale that stays would clip each of them by a twelfth at least, 0.4; five deviations of the mean are allowed.
    allowed = 5 * float(errors.std()) / math.sqrt(len(errors))
    assert abs(float(errors.mean())) < allowed < 0.4


@pytest.mark.parametrize("bits", [1, 8])
def test_outliers_beyond_the_most_are_the_smaller_ones(bits: int) -> None:
    y = gaussian(4 * BLOCK).clamp(-3, 3)
    y[5000:6000] = torch.linspace(5, 8, 1000)
    payload = encode(bits, turn(y, back=True))
    count = num_outliers(payload)
    assert 0 < count < 1000
    decoded = turn(fedcomp.decode(payload, seed=SEED))
    exact = (decoded - y)[5000:6000].abs() < 1e-4
    assert bool(exact[1000 - count :].all())
    assert int(exact.sum()) < count + 100


@pytest.mark.parametrize(("bits", "dim", "raw"), [(1, BLOCK + 8, 8), (8, BLOCK + 60, 60), (2, 40, 0), (8, 300, 44)])
def test_a_short_tail_is_raw_a_longer_one_padded(bits: int, dim: int, raw: int) -> None:
    x = gaussian(dim)
    payload = encode(bits, x)
    assert struct.unpack("<BBI", read_header(payload).params)[:2] == (bits, raw)
    decoded = fedcomp.decode(payload, seed=SEED)
    assert torch.equal(decoded[dim - raw :], x[dim - raw :])
    assert not torch.equal(decoded[: dim - raw], x[: dim - raw])


def test_a_scale_too_small_for_float32_is_not_lost() -> None:
    # One subnormal coordinate: the root mean square of its block is a 64th of the smallest float32.
    x = torch.zeros(4096)
    x[17] = 2.0**-149
    assert torch.equal(roundtrip(8, x), x)


def test_the_number_of_threads_does_not_matter() -> None:
    x = gaussian(3 * BLOCK)
    payload = encode(2, x)
    again = fedcomp.decode(payload, seed=SEED)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        assert torch.equal(fedcomp.decode(payload, seed=SEED), again)
    finally:
        torch.set_num_threads(threads)
    assert encode(2, x, seed=12) != payload


# What a hostile sender may write: 300 coordinates, two padded blocks of 256, two bits each, three outliers.
_DIM, _BLOCKS, _ROTATED = 300, 2, 512


def forge(
    *,
    dim: int = _DIM,
    params: bytes = struct.pack("<BBI", 2, 0, 3),
    scales: tuple[float, ...] = (1.0, 2.0),
    places: tuple[int, ...] = (1, 5, 400),
    outliers: tuple[float, ...] = (4.0, -5.0, 6.0),
    extra: bytes = b"",
    coded: bytes | None = None,
) -> bytes:
    if coded is None:
        coded = eliasfano.encode(torch.tensor(places).numpy(), _ROTATED)
    body = struct.pack(f"<{len(scales)}f", *scales) + bytes(_ROTATED * 2 // 8) + coded
    body += struct.pack(f"<{len(outliers)}f", *outliers) + extra
    return pack(scheme=12, dim=dim, params=params, body=body, seed=SEED)


def test_the_forged_payload_is_valid_without_a_fault() -> None:
    assert len(fedcomp.decode(forge(), seed=SEED)) == _DIM


@pytest.mark.parametrize(
    ("payload", "error", "named"),
    [
        (forge(params=struct.pack("<BBI", 0, 0, 3)), InvalidParams, "bits 0"),
        (forge(params=struct.pack("<BBI", 9, 0, 3)), InvalidParams, "bits 9"),
        (forge(params=struct.pack("<BBI", 2, 43, 3)), InvalidParams, "raw 43"),
        (forge(params=struct.pack("<BBI", 2, 0, 513)), InvalidParams, "513 outliers among 512"),
        (forge(params=struct.pack("<BBI", 2, 0, 2**32 - 1)), InvalidParams, "4294967295 outliers"),
        (forge(params=struct.pack("<BBI", 2, 0, 4)), InvalidParams, "bytes of body"),
        (forge(params=struct.pack("<BBI", 1, 0, 3)), InvalidParams, "bytes of body"),
        (forge(params=struct.pack("<BB", 2, 0)), InvalidParams, "bytes of parameters"),
        (forge(extra=b"\0"), InvalidParams, "bytes of body"),
        (forge(dim=600), InvalidParams, "bytes of body"),
        (forge(coded=b"\xff" * eliasfano.encoded_bytes(3, _ROTATED)), InvalidParams, "not increasing"),
        (forge(coded=b"\0" * eliasfano.encoded_bytes(3, _ROTATED)), InvalidParams, "not increasing"),
        (forge(outliers=(4.0, math.nan, 6.0)), NonFinite, "nan"),
        (forge(outliers=(4.0, math.inf, 6.0)), NonFinite, "inf"),
        (forge(outliers=(4.0, 16.1, 6.0)), InvalidParams, "outlier of 16.1"),
        (forge(outliers=(3e38, 3e38, -3e38)), InvalidParams, "outlier of"),
        (forge(scales=(math.nan, 1.0)), NonFinite, "nan"),
        (forge(scales=(1.0, -math.inf)), NonFinite, "inf"),
    ],
)
def test_what_cannot_be_is_refused(payload: bytes, error: type[PayloadError], named: str) -> None:
    with pytest.raises(error, match=named):
        fedcomp.decode(payload, seed=SEED)


def test_the_largest_scales_decode_to_finite_values() -> None:
    decoded = fedcomp.decode(forge(scales=(3.4e38, -3.4e38), outliers=(16.0, -16.0, 16.0)), seed=SEED)
    assert bool(torch.isfinite(decoded).all())


@pytest.mark.parametrize("dim", [2**32, 2**60, 2**64 - 1])
@pytest.mark.parametrize("count", [0, 2**32 - 1])
def test_a_few_bytes_cannot_stand_for_any_dim(dim: int, count: int) -> None:
    payload = pack(scheme=12, dim=dim, params=struct.pack("<BBI", 1, 0, count), body=bytes(100), seed=SEED)
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(PayloadError):
        fedcomp.decode(payload, seed=SEED, max_dim=2**64)
    seconds = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 1
    assert peak < 10_000_000


def test_an_empty_vector_is_a_header_and_parameters() -> None:
    payload = encode(2, torch.zeros(0))
    assert len(payload) == HEADER_BYTES + 6
    assert fedcomp.decode(payload, seed=SEED).shape == (0,)
    lying = pack(scheme=12, dim=0, params=struct.pack("<BBI", 2, 0, 1), body=bytes(5), seed=SEED)
    with pytest.raises(InvalidParams, match="1 outliers among 0"):
        fedcomp.decode(lying, seed=SEED)
