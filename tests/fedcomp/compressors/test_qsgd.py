from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.errors import InvalidParams
from fedcomp.metrics import vnmse
from fedcomp.wire import HEADER_BYTES, pack, read_header

X = torch.randn(20_000, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("options", ["levels=1,bucket=512", "levels=7,bucket=128", "levels=127,bucket=64,norm=max"])
def test_coding_changes_the_bytes_and_not_the_estimate(options: str) -> None:
    packed = fedcomp.compressor(f"qsgd:{options}").encode(X, seed=3)
    entropy = fedcomp.compressor(f"qsgd:{options},coding=entropy").encode(X, seed=3)
    assert packed != entropy
    assert torch.equal(fedcomp.decode(packed, seed=3), fedcomp.decode(entropy, seed=3))


@pytest.mark.parametrize(("levels", "bits"), [(1, 0.50), (7, 1.60), (127, 6.2)])
def test_elias_codes_are_shorter_where_levels_are_small(levels: int, bits: float) -> None:
    payload = fedcomp.compressor(f"qsgd:levels={levels},coding=entropy").encode(X, seed=3)
    assert fedcomp.bits_per_coordinate(payload) < bits


def test_the_published_bound_holds() -> None:
    # E‖x̂−x‖² ≤ min(n/s², √n/s)·‖x‖² a bucket (lemma 3.1).
    for levels, bucket in ((1, 64), (7, 128), (127, 512)):
        codec = fedcomp.compressor(f"qsgd:levels={levels},bucket={bucket}")
        error = vnmse(fedcomp.decode(codec.encode(X, seed=1), seed=1), X)
        assert error < min(bucket / levels**2, bucket**0.5 / levels)


@pytest.mark.parametrize(
    ("position", "value"),
    [
        (0, 0),  # no levels
        (0, 128),  # too many
        (1, 1),  # packed levels with a count of non-zeros
        (1, 6),  # no such form
        (2, 4),  # a bucket that is no multiple of 8
        (6, 1),  # another number of non-zeros
    ],
)
def test_parameters_that_lie_are_refused(position: int, value: int) -> None:
    payload = fedcomp.compressor("qsgd:levels=3,coding=entropy").encode(X[:600], seed=3)
    header = read_header(payload)
    params = bytearray(header.params)
    params[position] = value
    body = payload[HEADER_BYTES + len(params) :]
    with pytest.raises(InvalidParams):
        fedcomp.decode(pack(scheme=6, dim=600, params=bytes(params), body=body, seed=3), seed=3)


def test_elias_codes_above_the_levels_are_refused() -> None:
    payload = fedcomp.compressor("qsgd:levels=100,bucket=8,norm=max,coding=entropy").encode(X[:600], seed=3)
    params = bytearray(read_header(payload).params)
    params[0] = 3
    body = payload[HEADER_BYTES + len(params) :]
    with pytest.raises(InvalidParams, match="levels above 3"):
        fedcomp.decode(pack(scheme=6, dim=600, params=bytes(params), body=body, seed=3), seed=3)


def test_norms_that_are_missing_are_refused() -> None:
    params = read_header(fedcomp.compressor("qsgd:coding=entropy").encode(X[:600], seed=3)).params
    with pytest.raises(InvalidParams, match="bytes of norms"):
        fedcomp.decode(pack(scheme=6, dim=2**20, params=params, body=b"\0" * 100, seed=3), seed=3)
