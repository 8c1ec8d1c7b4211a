"""EDEN in its other codes: on a trellis, entropy coded, or both."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import torch

from fedcomp.errors import NonFinite
from tests.hostile.cases.case import Case, Parts, honest, lengths_and_dims, not_finite, overwrite

_TRELLIS, _ENTROPY = "quantizer=trellis", "coding=entropy"
# One block of 1,024 and a raw tail of four; the mean is worth sending.
_DIM = 1028
_WORD = b"\1\2\3\4"


def cases() -> Iterator[Case]:
    yield from _trellis(replace(honest("trellis", f"eden:bits=2,{_TRELLIS}", _DIM), name="eden-trellis"))
    for name, code in (("eden-entropy", _ENTROPY), ("eden-trellis-entropy", f"{_TRELLIS},{_ENTROPY}")):
        parts = replace(honest(name, f"eden:bits=2,{code}", _DIM), name=name)
        yield from _params(parts)
        yield from _stream(parts)
        yield from _numbers(parts)
        yield from _claims(parts)
    x = torch.zeros(5000)
    x[:1024] = torch.linspace(-3, 3, 1024)
    x[1024:2054] = torch.linspace(-0.03, 0.03, 1030)
    name = "eden-adaptive-trellis-entropy"
    yield from _pools(replace(honest(name, f"eden:bits=2,allocation=adaptive,{_TRELLIS},{_ENTROPY}", x), name=name))


def _fields(parts: Parts, **changes: int) -> bytes:
    names = ("rate", "log_block", "rounds", "flags", "raw")
    fields = dict(zip(names, struct.unpack("<IBBBB", parts.params), strict=True)) | changes
    return struct.pack("<IBBBB", *fields.values())


def _trellis(parts: Parts) -> Iterator[Case]:
    yield from lengths_and_dims(parts)
    yield from _numbers(parts)
    flags = parts.params[6]
    for what, states in (("2", 1), ("512", 9), ("2e15", 15)):
        given = _fields(parts, flags=flags & 15 | states << 4)
        why = "there are no taps for a register of this size"
        yield parts.with_params(given, f"states-{what}", says=f"2^{states} states", why=why)
    yield parts.with_params(_fields(parts, flags=flags | 8), "flags-8", says="flags", why="a later release's meaning")
    packed = _fields(parts, flags=flags | 4)
    yield parts.with_params(packed, "entropy-announced", says="its indices", why="packed codes are read as a stream")
    given = _fields(parts, rate=3 * 65536)
    yield parts.with_params(given, "rate-of-longer-codes", says="of indices", why="codes are read past the end")


def _params(parts: Parts) -> Iterator[Case]:
    flags, rate = parts.params[6], struct.unpack("<I", parts.params[:4])[0]
    yield parts.with_params(parts.params[:-1], "params-short", says="parameters", why="unpacking the parameters fails")
    for what, changes, says, why in (
        ("rate-0", {"rate": 0}, "its indices", "eight indices are taken and the rest of the stream is ignored"),
        ("rate-above-eight", {"rate": 8 * 65536 + 1}, "rate 524289", "there is no code of more than eight bits"),
        ("rate-lower", {"rate": rate - 4096}, "its indices", "the stream is read with other frequencies"),
        ("rate-higher", {"rate": rate + 4096}, "", "the stream is read with other frequencies"),
        ("states-2", {"flags": flags & 15 | 16}, "2^1 states", "there are no taps for a register of two states"),
        ("states-2e15", {"flags": flags & 15 | 240}, "2^15 states", "a search over 32,768 states"),
        ("flags-8", {"flags": flags | 8}, "flags", "a meaning of a later release is ignored"),
        ("packed-announced", {"flags": flags & ~4}, "bytes of", "a stream is read as packed codes"),
        ("means-not-announced", {"flags": flags & ~1}, "", "a mean is taken for a scale"),
        ("raw-none", {"raw": 0}, "", "the tail is taken for a padded block's scale"),
    ):
        yield parts.with_params(_fields(parts, **changes), what, says=says, why=why)


def _stream(parts: Parts) -> Iterator[Case]:
    # The body: a byte of flags, a mean of two bytes, a scale of four, the raw tail of sixteen, the stream.
    body, start = parts.body, 3 + 4 + 16
    for what, given, says, why in (
        ("body-empty", b"", "", "views of nothing are reshaped"),
        ("no-stream", body[:start], "or more", "all indices are zero without a byte"),
        ("not-whole-words", body + b"\1", "whole words", "bytes are left over"),
        ("half-a-word-less", body[:-2], "whole words", "bytes are left over"),
        ("last-word-zero", body + bytes(4), "has no end", "the library raises an error of its own"),
        ("last-word-missing", body[:-4], "its indices", "the coder starts from another number"),
        ("first-word-missing", body[:start] + body[start + 4 :], "its indices", "the last indices are made up"),
        ("half-the-stream", body[: start + 120], "", "the rest of the indices are made up"),
        ("word-appended", body + _WORD, "its indices", "what is left over is ignored"),
        ("word-in-front", body[:start] + _WORD + body[start:], "its indices", "what is left over is ignored"),
        ("garbage-appended", body + _WORD * 50, "its indices", "one payload would have many encodings"),
        ("first-word-other", overwrite(body, start, _WORD), "its indices", "only the last index shows it"),
    ):
        yield parts.with_body(given, what, says=says, why=why)


def _numbers(parts: Parts) -> Iterator[Case]:
    mean, rest = parts.body[1:3], parts.body[3:]
    for what, body, why in (
        ("means-none-flagged", b"\0" + rest, "means announced and none there: a second encoding of none"),
        ("mean-beyond-blocks", b"\3" + mean + mean + rest, "the second of one block's means"),
    ):
        yield parts.with_body(body, what, says="of means", why=why)
    payload = replace(parts, body=overwrite(parts.body, 1, struct.pack("<H", 0x7FC0))).packed()
    yield Case(f"{parts.name}-mean-nan", payload, NonFinite, "a mean", "a block's mean that is not finite")
    yield from not_finite(parts, "scale", 3)
    yield from not_finite(parts, "raw-coordinate", 3 + 4 + 12)


def _claims(parts: Parts) -> Iterator[Case]:
    # Blocks of 2^18, a scale each, without means: 64 of them are 256 bytes.
    dim, stream = 2**24, _WORD * 400
    for what, rate in (("at-a-sixteenth", 4096), ("at-a-bit", 65536), ("at-eight-bits", 8 * 65536)):
        given = _fields(parts, rate=rate, log_block=18, flags=parts.params[6] & ~1, raw=0)
        claim = replace(parts, dim=dim, params=given)
        why = "indices of a whole vector are allocated, or taken from a stream that has long ended"
        yield claim.with_body(bytes(256) + stream, f"huge-{what}", says="or more", why=why)
    given = _fields(parts, rate=12, log_block=18, flags=parts.params[6] & ~1, raw=0)
    claim = replace(parts, dim=dim, params=given)
    why = "eight coordinates of each block are sent: the rest is zero, and the stream is too long"
    yield claim.with_body(bytes(256) + stream, "huge-at-no-rate", says="its indices", why=why)


def _pools(parts: Parts) -> Iterator[Case]:
    table, _, pools = struct.unpack("<IhH", parts.body[:8])
    rates, body = 8 + table, parts.body
    for what, given, says, why in (
        ("last-word-missing", body[:-4], "its indices", "the coder starts from another number"),
        ("word-appended", body + _WORD, "its indices", "what is left over is ignored"),
        ("last-word-zero", body + bytes(4), "has no end", "the library raises an error of its own"),
        ("not-whole-words", body[:-1], "whole words", "bytes are left over"),
        ("rate-other", overwrite(body, rates, struct.pack("<H", 1000)), "its indices", "read with other frequencies"),
        ("rate-0", overwrite(body, rates, bytes(2)), "its indices", "a pool without bits, and a stream that has them"),
        ("rate-above-eight", overwrite(body, rates, struct.pack("<H", 2**15 + 1)), "rates", "no code of so many bits"),
    ):
        yield parts.with_body(given, what, says=says, why=why)
    yield parts.with_params(
        _fields(parts, flags=parts.params[6] & ~4), "packed-announced", says="of indices", why="a stream read as codes"
    )
    yield parts.with_floats(
        rates + 2 * pools, float("nan"), what="scale-nan", says="nan", why="a scale that is not finite"
    )
