from __future__ import annotations

import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import fedcomp
from fedcomp.compressors import eden_body, eden_coded
from fedcomp.compressors.registry import accumulate
from fedcomp.errors import InvalidParams, NonFinite, PayloadError
from fedcomp.kernels.eden_rows import VARIABLE
from fedcomp.wire import HEADER_BYTES, pack, read_header

TRELLIS, ENTROPY = "quantizer=trellis", "coding=entropy"
BOTH = f"{TRELLIS},{ENTROPY}"
SPECS = [f"eden:bits={bits},{code}" for bits in (0.3, 1, 2.5) for code in (TRELLIS, ENTROPY, BOTH)]
SPECS += [f"eden:bits=2,block=256,{code}" for code in (TRELLIS, BOTH)]
SPECS += [f"eden:bits=2,allocation=adaptive,{code}" for code in (TRELLIS, ENTROPY, BOTH)]


def vector(dim: int, seed: int = 0) -> torch.Tensor:
    """Return normals, a part of them with a mean that is worth sending, a part much smaller."""
    x = torch.randn(dim, generator=torch.Generator().manual_seed(seed))
    x[: dim // 4] += 3
    x[dim // 2 :] *= 0.01
    return x


def encode(spec: str, x: torch.Tensor, seed: int = 1) -> bytes:
    return fedcomp.compressor(spec).encode(x, seed=seed)


@given(st.sampled_from(SPECS), st.sampled_from([0, 5, 300, 1000, 5001, 20_000]), st.floats(0, 1e6))
def test_accumulating_is_decoding_and_adding(spec: str, dim: int, weight: float) -> None:
    payload = encode(spec, vector(dim))
    into = torch.randn(dim, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    expected = into.clone().add_(fedcomp.decode(payload, seed=1), alpha=weight)
    accumulate(payload, seed=1, into=into, weight=weight)
    assert torch.equal(into, expected)


@pytest.mark.parametrize("spec", SPECS)
def test_all_backends_decode_to_the_same_bits(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = vector(20_000)
    payload, decoded = encode(spec, x), fedcomp.decode(encode(spec, x), seed=1)
    monkeypatch.setenv(VARIABLE, "reference")
    assert torch.equal(fedcomp.decode(payload, seed=1), decoded)
    other = encode(spec, x)
    assert len(other) == len(payload)
    torch.testing.assert_close(fedcomp.decode(other, seed=1), decoded, rtol=1e-5, atol=1e-6)


# Two segments a block, several groups, a padded block; the stream has all blocks' first segment first.
@pytest.mark.parametrize("spec", [*SPECS, f"eden:bits=1.3,block=512,{BOTH}", f"eden:bits=4.7,block=1024,{TRELLIS}"])
def test_chunks_do_not_show(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = vector(70_100)
    expected = encode(spec, x)
    decoded = fedcomp.decode(expected, seed=1)
    monkeypatch.setattr(eden_coded, "_CHUNK", {"cpu": 1024, "cuda": 1024})
    assert encode(spec, x) == expected
    assert torch.equal(fedcomp.decode(expected, seed=1), decoded)


def test_indices_are_taken_in_portions_that_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    payload = encode(f"eden:bits=2.3,{BOTH}", vector(70_100))
    decoded = fedcomp.decode(payload, seed=1)
    monkeypatch.setattr("fedcomp.compressors.eden_indices._TAKEN", 1000)
    assert torch.equal(fedcomp.decode(payload, seed=1), decoded)


def test_the_plain_code_does_not_come_here(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **more: object) -> bytes:
        raise AssertionError("a plain payload was sent to the other codes")

    monkeypatch.setattr(eden_body, "encode_coded", refuse)
    monkeypatch.setattr(eden_body, "CodedBlocks", refuse)
    fedcomp.decode(encode("eden:bits=2", vector(1000)), seed=1)
    with pytest.raises(AssertionError, match="other codes"):
        encode(f"eden:bits=2,{TRELLIS}", vector(1000))


def repacked(payload: bytes, body: bytes, params: bytes | None = None, dim: int | None = None) -> bytes:
    header = read_header(payload)
    given = header.params if params is None else params
    return pack(scheme=1, dim=header.dim if dim is None else dim, params=given, body=body, seed=1)


def body_of(payload: bytes) -> bytes:
    return payload[HEADER_BYTES + len(read_header(payload).params) :]


def refuse_and_keep(payload: bytes, error: type[PayloadError], says: str, dim: int) -> None:
    into = torch.arange(dim, dtype=torch.float64)
    with pytest.raises(error, match=says):
        accumulate(payload, seed=1, into=into, weight=2.0)
    assert torch.equal(into, torch.arange(dim, dtype=torch.float64))
    with pytest.raises(error, match=says):
        fedcomp.decode(payload, seed=1)


WRONG_END = "does not end with its indices"


@pytest.mark.parametrize("spec", [f"eden:bits={bits},{code}" for bits in (2.5, 4) for code in (ENTROPY, BOTH)])
def test_a_stream_that_is_wrong_is_refused_before_anything_is_added(spec: str) -> None:
    dim = 5001
    payload = encode(spec, vector(dim))
    body = body_of(payload)
    word = b"\1\2\3\4"
    # The raw tail of 137 coordinates ends before the stream; the coder takes the last word first. One in some thirty of
    # such streams ends with its indices by chance; these do not.
    for wrong in (
        body[:-4],
        body + word,
        body[:-4] + word,
        body[:-104] + word + body[-100:],
        body[:-200] + body[-196:],
    ):
        refuse_and_keep(repacked(payload, wrong), InvalidParams, WRONG_END, dim)
    refuse_and_keep(repacked(payload, body + bytes(4)), InvalidParams, "has no end", dim)
    refuse_and_keep(repacked(payload, body + b"\1"), InvalidParams, "whole words", dim)
    refuse_and_keep(repacked(payload, body[:-1]), InvalidParams, "whole words", dim)


def test_a_wrong_first_word_is_seen_although_all_indices_are_right_but_the_last() -> None:
    # The first word of the stream is what the coder comes to last.
    dim = 4096
    payload = encode(f"eden:bits=2,{BOTH}", torch.randn(dim, generator=torch.Generator().manual_seed(1)))
    body = bytearray(body_of(payload))
    body[4] ^= 1
    refuse_and_keep(repacked(payload, bytes(body)), InvalidParams, WRONG_END, dim)


@pytest.mark.parametrize("change", [-1, 1, 20])
def test_a_packed_body_of_another_length_is_refused(change: int) -> None:
    payload = encode(f"eden:bits=2,{TRELLIS}", vector(5001))
    body = body_of(payload)
    wrong = body[:change] if change < 0 else body + bytes(change)
    refuse_and_keep(repacked(payload, wrong), InvalidParams, r"bytes of indices, not \d+ bytes in all", 5001)


@pytest.mark.parametrize("code", [TRELLIS, ENTROPY, BOTH])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused_before_anything_is_added(code: str, value: float) -> None:
    # A byte of flags, the mean of the first of two blocks, two scales, and the tail: 3 + 4·2 bytes.
    x = torch.cat([torch.linspace(1, 3, 1024), torch.linspace(-1, 1, 1024 + 6)])
    payload = encode(f"eden:bits=2,block=1024,{code}", x)
    body = body_of(payload)
    assert body[0] == 1
    number = struct.pack("<f", value)
    places = (
        (1, number[2:], "a mean"),
        (3, number, "at place 0"),
        (7, number, "at place 1"),
        (31, number, "at place 5"),
    )
    for place, data, says in places:
        wrong = body[:place] + data + body[place + len(data) :]
        refuse_and_keep(repacked(payload, wrong), NonFinite, says, 2054)


def test_a_tiny_stream_cannot_stand_for_a_huge_vector() -> None:
    # 16 MiB of scales would be a fair price; here 2 kB claim 2^26 coordinates.
    for flags, rate in ((4, 65536), (4, 4096), (0x34, 8 * 65536), (0x34, 4096)):
        params = struct.pack("<IBBBB", rate, 18, 2, flags, 0)
        payload = pack(scheme=1, dim=2**26, params=params, body=bytes(1024) + b"\1\2\3\4" * 200, seed=1)
        with pytest.raises(InvalidParams, match=r"whole words, \d+ bytes or more"):
            fedcomp.decode(payload, seed=1)


@pytest.mark.parametrize("code", [TRELLIS, ENTROPY, BOTH])
@pytest.mark.parametrize("bits", [0.01, 0.3, 1, 4])
def test_zeros_and_constants_come_back(code: str, bits: float) -> None:
    # An index may then take next to nothing, and less than a reader asks for it would be refused.
    for x in (torch.zeros(70_000), torch.full((70_000,), 3.0), torch.cat([vector(30_000), torch.zeros(40_000)])):
        for block in (256, 16384):
            decoded = fedcomp.decode(encode(f"eden:bits={bits},block={block},{code}", x), seed=1)
            zero = x == 0
            if bool(zero.all()) or float(x.std()) == 0:
                assert torch.equal(decoded, x)
            assert bool((decoded[-32:] == x[-32:]).all())


def test_the_limit_of_float32_is_named() -> None:
    with pytest.raises(NonFinite, match="at float32's limit; scale it down"):
        encode(
            f"eden:bits=2,{BOTH}", torch.full((5000,), torch.finfo(torch.float32).max) * torch.tensor([1, -1] * 2500)
        )


@pytest.mark.parametrize("code", [TRELLIS, BOTH])
def test_the_mmse_scale_errs_less(code: str) -> None:
    x = torch.randn(50_000, generator=torch.Generator().manual_seed(2))
    errors = []
    for scale in ("unbiased", "mmse"):
        decoded = fedcomp.decode(encode(f"eden:bits=1,scale={scale},{code}", x), seed=1)
        errors.append(float((decoded - x).square().sum() / x.square().sum()))
    assert errors[1] == pytest.approx(errors[0] / (1 + errors[0]), rel=0.01)
