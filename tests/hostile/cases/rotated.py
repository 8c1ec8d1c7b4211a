"""Schemes that rotate blocks: eden, drive, hadamard, correlated."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from fedcomp.errors import NonFinite
from tests.hostile.cases.case import Case, Parts, honest, lengths_and_dims, not_finite, overwrite

# One block of 256 and a raw tail of four.
_DIM = 260


def cases() -> Iterator[Case]:
    yield from _eden(honest("eden", "eden:bits=2", _DIM))
    yield from _eden(honest("drive", "drive", _DIM))
    yield from _hadamard(honest("hadamard", "hadamard:bits=2", _DIM))
    yield from _hadamard(honest("correlated", "correlated:bits=2", _DIM))


def _eden(parts: Parts) -> Iterator[Case]:
    # The body: a byte of flags, a mean of two bytes, a scale of four, the codes, the raw tail.
    yield from lengths_and_dims(parts)
    rate, log_block, rounds, flags, raw = struct.unpack("<IBBBB", parts.params)

    def params(
        rate: int = rate, log: int = log_block, rounds: int = rounds, flags: int = flags, raw: int = raw
    ) -> bytes:
        return struct.pack("<IBBBB", rate, log, rounds, flags, raw)

    for what, given, says, why in (
        ("rate-above-eight", params(rate=8 * 65536 + 1), "rate 524289", "there is no codebook of nine bits"),
        ("rate-largest", params(rate=2**32 - 1), "rate 4294967295", "the bytes of the codes leave 64 bits"),
        ("rate-of-longer-codes", params(rate=rate + 65536), "bytes of body", "codes are read into the raw tail"),
        ("block-128", params(log=7), "block 2^7", "two rounds on so few coordinates are biased; no block is so small"),
        ("block-2e25", params(log=25), "block 2^25", "signs for a block of this size are allocated"),
        ("block-2e255", params(log=255), "block 2^255", "a shift by 255 bits"),
        ("rounds-0", params(rounds=0), "rounds 0", "no signs at all are stacked"),
        ("rounds-5", params(rounds=5), "rounds 5", "each round costs time"),
        ("rounds-255", params(rounds=255), "rounds 255", "each round costs time"),
        ("flags-4", params(flags=flags ^ 4), "its indices", "packed codes are read as an entropy-coded stream"),
        ("flags-255", params(flags=255), "flags 255", "a meaning of a later release is ignored"),
        ("raw-1", params(raw=1), "raw 1", "a tail of another length than dim leaves"),
        ("raw-255", params(raw=255), "raw 255", "a tail of another length than dim leaves"),
        ("raw-none", params(raw=0), "bytes of body", "the tail is taken for a padded block's codes"),
        ("means-not-announced", params(flags=0), "bytes of body", "a mean is taken for a scale"),
    ):
        yield parts.with_params(given, what, says=says, why=why)
    mean, rest = parts.body[1:3], parts.body[3:]
    for what, body, why in (
        ("means-none-flagged", b"\0" + rest, "means announced and none there: a second encoding of none"),
        ("mean-missing", b"\1" + rest, "a flagged mean is read from the scales"),
        ("mean-beyond-blocks", b"\3" + mean + mean + rest, "the second of one block's means"),
    ):
        yield parts.with_body(body, what, says="of means", why=why)
    for what, half in (("nan", 0x7FC0), ("infinite", 0x7F80)):
        payload = replace(parts, body=overwrite(parts.body, 1, struct.pack("<H", half))).packed()
        yield Case(f"{parts.name}-mean-{what}", payload, NonFinite, "a mean", "a block's mean that is not finite")
    yield from not_finite(parts, "scale", 3)
    yield from not_finite(parts, "raw-coordinate", -4)


def _hadamard(parts: Parts) -> Iterator[Case]:
    # The body: minimum and maximum, the codes, the raw tail.
    yield from lengths_and_dims(parts)
    bits, raw = parts.params
    for what, given, says, why in (
        ("bits-0", (0, raw), "bits 0", "the step divides by 2^0 − 1"),
        ("bits-9", (9, raw), "bits 9", "there are no planes of nine bits"),
        ("bits-255", (255, raw), "bits 255", "2^255 levels"),
        ("bits-of-longer-codes", (bits + 1, raw), "bytes of body", "codes are read into the raw tail"),
        ("raw-1", (bits, 1), "raw 1", "a tail of another length than dim leaves"),
        ("raw-none", (bits, 0), "bytes of body", "the tail is taken for a padded block's codes"),
    ):
        yield parts.with_params(bytes(given), what, says=says, why=why)
    yield from not_finite(parts, "minimum", 0)
    yield from not_finite(parts, "maximum", 4)
    yield from not_finite(parts, "raw-coordinate", -4)
    for what, extremes, why in (
        ("range-overflows", (-3e38, 3e38), "finite extremes with an infinite difference; 0 times it is NaN"),
        ("rotation-overflows", (3e38, 3e38), "finite levels whose sums in the rotation are not"),
    ):
        yield parts.with_floats(0, *extremes, what=what, says="not finite", why=why)
