"""Payloads of a hostile or broken client: each is refused with a PayloadError, quickly, without allocation."""

from __future__ import annotations

import time
import tracemalloc

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedcomp
from fedcomp.errors import PayloadError
from fedcomp.wire import pack

SPECS = ["identity", "eden:bits=1", "eden:bits=3", "eden:bits=8"]
SEED = 11


def honest(spec: str, dim: int = 300) -> bytes:
    return fedcomp.compressor(spec).encode(torch.linspace(-1, 1, dim), seed=SEED)


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
    scheme=st.integers(0, 255),
    dim=st.one_of(st.integers(0, 2**12), st.integers(0, 2**64 - 1)),
    params=st.binary(max_size=6),
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
@pytest.mark.parametrize(("scheme", "params"), [(0, b""), (1, b"\x01\x08\x02\x00"), (1, b"\x08\x10\x04\x00")])
def test_absurd_dims_cost_nothing(dim: int, scheme: int, params: bytes) -> None:
    payload = pack(scheme=scheme, dim=dim, params=params, body=b"\0" * 100, seed=SEED)
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(PayloadError):
        fedcomp.decode(payload, seed=SEED)
    with pytest.raises(PayloadError):
        fedcomp.decode(payload, seed=SEED, max_dim=2**64)
    seconds = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert seconds < 1
    assert peak < 10_000_000
