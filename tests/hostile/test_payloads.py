"""Payloads of a hostile or broken client: each is refused with a PayloadError, quickly, without allocation."""

from __future__ import annotations

import struct
import time

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedcomp
from fedcomp.compressors.catalogue import SCHEMES
from fedcomp.errors import InvalidParams, PayloadError
from fedcomp.wire import pack
from tests.hostile.memory import traced
from tests.support import codec

SPECS = [*fedcomp.available_compressors(), "eden:bits=0.3", "eden:bits=2.5", "eden:bits=8", "topk:fraction=0.2"]
SPECS += ["eden:bits=2,allocation=adaptive", "qsgd:levels=1,coding=entropy", "qsgd:bits=8,coding=entropy"]
# Long enough for the codes: a block of less than 512 bits is sent in the plain one.
SPECS += ["eden:bits=3,quantizer=trellis", "eden:bits=3,coding=entropy", "eden:bits=3,quantizer=trellis,coding=entropy"]
SEED = 11


def honest(spec: str, dim: int = 300) -> bytes:
    # A mean of two is worth sending, so the payloads have flags and means too.
    return codec.encode(spec, torch.linspace(1, 3, dim), seed=SEED)


@pytest.mark.parametrize("name", ["topk", "randk"])
def test_a_few_bytes_cannot_stand_for_any_dim(name: str) -> None:
    # Nothing or one value sent of two million coordinates: true to its length.
    number = next(scheme.number for scheme in SCHEMES if scheme.name == name)
    for count, body in ((0, b""), (1, bytes(8 if name == "topk" else 4))):
        payload = pack(scheme=number, dim=2**21, params=struct.pack("<Q", count), body=body, seed=SEED)
        with pytest.raises(InvalidParams):
            fedcomp.decode(payload, seed=SEED)


@pytest.mark.parametrize("spec", fedcomp.available_compressors())
def test_no_scheme_makes_more_than_65536_coordinates_of_a_byte(spec: str) -> None:
    # Two million zeros are the least that any scheme sends; a payload that claims more than its bytes allow is refused.
    payload = codec.encode(spec, torch.zeros(2**21), seed=SEED)
    assert fedcomp.decode(payload, seed=SEED).shape == (2**21,)
    with pytest.raises(InvalidParams, match="45 bytes claims 8589934592 coordinates; allowed: at most 65536 a byte"):
        fedcomp.decode(pack(scheme=1, dim=2**33, params=eden_params(0), body=bytes(5), seed=SEED), seed=SEED)


def eden_params(rate: int, *, log_block: int = 8, rounds: int = 2, flags: int = 0, raw: int = 0) -> bytes:
    return struct.pack("<IBBBB", rate, log_block, rounds, flags, raw)


def refuse(payload: bytes) -> None:
    """Decode and add: both must fail with a PayloadError, and the estimator must not notice."""
    with pytest.raises(PayloadError):
        fedcomp.decode(payload, seed=SEED)
    estimator = fedcomp.MeanEstimator(300)
    estimator.add(honest("identity"), weight=1.0, seed=SEED)
    before = estimator.result()
    with pytest.raises(PayloadError):
        estimator.add(payload, weight=1.0, seed=SEED)
    after = estimator.result()
    assert torch.equal(before.mean, after.mean)
    assert (before.weight, before.clients, before.bytes) == (after.weight, after.clients, after.bytes)


@pytest.mark.parametrize("spec", SPECS)
def test_every_flipped_bit(spec: str) -> None:
    payload = honest(spec)
    for index in range(len(payload)):
        for bit in range(8):
            damaged = bytearray(payload)
            damaged[index] ^= 1 << bit
            with pytest.raises(PayloadError):
                fedcomp.decode(damaged, seed=SEED)


@pytest.mark.parametrize("spec", SPECS)
def test_any_byte_set_to_anything_leaves_an_estimator_unchanged(spec: str) -> None:
    payload = honest(spec)
    for index in range(0, len(payload), 7):
        for value in (0, 255, payload[index] ^ 1):
            if value != payload[index]:
                refuse(payload[:index] + bytes([value]) + payload[index + 1 :])


@pytest.mark.parametrize("spec", SPECS)
def test_every_truncation(spec: str) -> None:
    payload = honest(spec)
    for length in range(len(payload)):
        with pytest.raises(PayloadError):
            fedcomp.decode(payload[:length], seed=SEED)


@given(st.binary(max_size=200))
def test_random_bytes(data: bytes) -> None:
    with pytest.raises(PayloadError):
        fedcomp.decode(data, seed=SEED)


@given(st.sampled_from(SPECS), st.binary(min_size=1, max_size=40))
def test_appended_bytes(spec: str, extra: bytes) -> None:
    with pytest.raises(PayloadError):
        fedcomp.decode(honest(spec) + extra, seed=SEED)


@given(
    scheme=st.one_of(st.integers(0, 15), st.integers(0, 255)),
    dim=st.one_of(st.integers(0, 2**12), st.integers(2**33 + 1, 2**64 - 1)),
    params=st.one_of(
        st.binary(max_size=9),
        st.builds(
            lambda rate, log_block, flags, raw: eden_params(rate, log_block=log_block, flags=flags, raw=raw),
            st.one_of(st.integers(0, 2**20), st.integers(0, 2**32 - 1)),
            st.integers(6, 26),
            st.one_of(st.integers(0, 7), st.integers(0, 255)),
            st.integers(0, 255),
        ),
    ),
    body=st.binary(max_size=300),
)
def test_valid_headers_that_lie(scheme: int, dim: int, params: bytes, body: bytes) -> None:
    # Checksum and fingerprint are right, so only the meaning can be refused. What decodes must be a finite vector.
    payload = pack(scheme=scheme, dim=dim, params=params, body=body, seed=SEED)
    try:
        decoded = fedcomp.decode(payload, seed=SEED)
    except PayloadError:
        return
    assert decoded.shape == (dim,)
    assert bool(torch.isfinite(decoded).all())


@pytest.mark.parametrize("dim", [2**33, 2**40, 2**60, 2**64 - 1])
@pytest.mark.parametrize(
    ("scheme", "params"),
    [
        (0, b""),
        (1, eden_params(65536, log_block=18, flags=0x34)),
        (1, eden_params(0, flags=4)),
        (1, eden_params(1)),
        (1, eden_params(0)),
        (1, eden_params(8 * 65536, flags=1)),
        (1, b""),
    ],
)
def test_absurd_dims_cost_nothing(dim: int, scheme: int, params: bytes) -> None:
    payload = pack(scheme=scheme, dim=dim, params=params, body=b"\0" * 100, seed=SEED)
    started = time.perf_counter()
    with traced() as peak:
        with pytest.raises(PayloadError):
            fedcomp.decode(payload, seed=SEED)
        with pytest.raises(PayloadError):
            fedcomp.decode(payload, seed=SEED, max_dim=2**64)
    assert time.perf_counter() - started < 1
    assert peak.bytes < 10_000_000
