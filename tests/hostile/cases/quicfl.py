"""quicfl: the codes of hadamard, and outliers with their places as topk has them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedcomp.coding import eliasfano
from fedcomp.errors import InvalidParams
from tests.hostile.cases.case import Case, Parts, honest, lengths_and_dims, not_finite, overwrite

# One block of 256 and a raw tail of four.
_DIM, _ROTATED = 260, 256
_PLACES, _OUTLIERS = [3, 100, 200], [4.5, -4.0, 5.0]


def cases() -> Iterator[Case]:
    # The body: a scale, the codes, places and outliers, the raw tail.
    plain = honest("quicfl", "quicfl:bits=2", _DIM)
    head, tail = plain.body[: 4 + _ROTATED * 2 // 8], plain.body[-16:]
    params = plain.params[:2] + struct.pack("<I", len(_PLACES))
    parts = replace(plain, params=params, body=head + _outliers(_PLACES) + tail).checked()
    yield from lengths_and_dims(parts)
    yield from _params(parts)
    yield from _places(parts, head, tail)
    yield from not_finite(parts, "scale", 0)
    yield from not_finite(parts, "outlier", -16 - 4)
    yield from not_finite(parts, "raw-coordinate", -4)
    for what, value in (("17", 17.0), ("3e38", -3e38)):
        body = overwrite(parts.body, -16 - 4, struct.pack("<f", value))
        yield parts.with_body(
            body,
            f"outlier-{what}",
            says="outlier of",
            why="above √256 no rotated coordinate is; the rotation overflows",
        )


def _params(parts: Parts) -> Iterator[Case]:
    bits, raw, count = struct.unpack("<BBI", parts.params)
    for what, given, says, why in (
        ("bits-0", (0, raw, count), "bits 0", "there is no table of levels"),
        ("bits-9", (9, raw, count), "bits 9", "there is no table of levels"),
        ("bits-255", (255, raw, count), "bits 255", "2^255 levels"),
        ("bits-of-longer-codes", (bits + 1, raw, count), "bytes of body", "codes are read into the places"),
        ("raw-1", (bits, 1, count), "raw 1", "a tail of another length than dim leaves"),
        ("raw-none", (bits, 0, count), "bytes of body", "the tail is taken for outliers"),
        ("count-zero", (bits, raw, 0), "bytes of body", "outliers are taken for the tail"),
        ("count-less", (bits, raw, count - 1), "bytes of body", "an outlier is taken for the tail"),
        ("count-more", (bits, raw, count + 1), "bytes of body", "the tail is taken for an outlier"),
        ("count-257-of-256", (bits, raw, 257), "257 outliers", "more outliers than coordinates"),
        ("count-2e32", (bits, raw, 2**32 - 1), "4294967295 outliers", "more outliers than coordinates"),
    ):
        yield parts.with_params(struct.pack("<BBI", *given), what, says=says, why=why)


def _places(parts: Parts, head: bytes, tail: bytes) -> Iterator[Case]:
    for what, places, why in (
        ("equal", [3, 100, 100], "the last outlier written wins, on one device or another"),
        ("decreasing", [3, 100, 99], "order is what makes an encoding unique"),
        ("beyond-the-blocks", [3, 100, 256], "a write past the end of the rotated coordinates"),
        ("in-the-raw-tail", [3, 100, 259], "a place below dim that is not rotated"),
    ):
        yield parts.with_body(head + _outliers(places) + tail, f"places-{what}", says="places", why=why)
    code = eliasfano.encode(np.array(_PLACES), _ROTATED)
    body = overwrite(parts.body, len(head) + len(code) - 1, b"\0")
    yield parts.with_body(body, "places-missing", says="places", why="as many ones as there are places")
    # Nothing but outliers, each as large as it may be: true to its length, and finite only if clamped.
    outliers = struct.pack("<256f", *[1e9] * 256)
    body = head + eliasfano.encode(np.arange(_ROTATED), _ROTATED) + outliers + tail
    payload = replace(parts, params=parts.params[:2] + struct.pack("<I", 256), body=body).packed()
    yield Case(
        f"{parts.name}-outliers-everywhere", payload, InvalidParams, "outlier of", "sums of the rotation overflow"
    )


def _outliers(places: list[int]) -> bytes:
    return eliasfano.encode(np.array(places), _ROTATED) + struct.pack(f"<{len(_OUTLIERS)}f", *_OUTLIERS)
