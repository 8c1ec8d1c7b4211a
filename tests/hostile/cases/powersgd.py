"""powersgd: the sides of matrices in the parameters, their factors in the body."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedcomp.coding import varint
from fedcomp.errors import InvalidParams
from tests.hostile.cases.case import Case, Parts, lengths_and_dims, not_finite

_NUMBER = 14
_SIDES = [2, 8, 10, 4, 1]
"""Rank 2; a matrix of 8×10, whose factors are 16 and 20 numbers, and a bias of 4 sent as it is."""


def cases() -> Iterator[Case]:
    body = np.linspace(-1, 1, 16 + 20 + 4).astype("<f4").tobytes()
    parts = Parts("powersgd", _NUMBER, 84, varint.encode(_SIDES), body).checked()
    yield from lengths_and_dims(parts)
    yield from _params(parts)
    yield from _huge(parts)
    for place, offset in (("left-factor", 0), ("right-factor", 4 * 16), ("bias", -4)):
        yield from not_finite(parts, place, offset)
    overflowing = [1e30] * 36
    yield parts.with_floats(
        0, *overflowing, what="product-overflows", says="not finite", why="finite factors of an infinite product"
    )
    # Column-major views: P is 8×2 and Q 10×2, both row by row, so columns alternate.
    cancelling = [1e30, 1e30] * 8 + [1e30, -1e30] * 10
    yield parts.with_floats(
        0, *cancelling, what="products-cancel", says="not finite", why="finite factors; infinity minus infinity is NaN"
    )


def _params(parts: Parts) -> Iterator[Case]:
    encode = varint.encode
    for what, given, says, why in (
        ("params-empty", b"", "0 bytes", "the rank is read from nothing"),
        ("rank-0", encode([0, *_SIDES[1:]]), "rank from 1", "factors without columns"),
        ("rank-65", encode([65, *_SIDES[1:]]), "rank from 1", "each column costs time"),
        ("rank-2e62", encode([2**62, *_SIDES[1:]]), "rank from 1", "lengths leave 64 bits"),
        ("rank-of-fewer-floats", encode([1, *_SIDES[1:]]), "bytes of body", "a factor is taken for the bias"),
        ("sides-swapped", encode([2, 8, 4, 10, 1]), "hold 42", "matrices that do not fill the vector"),
        ("sides-0", encode([2, 0, 10, 4, 1]), "hold 4", "a matrix without rows"),
        ("sides-2e62", encode([2, 2**62, 2**62]), "coordinates", "the product of the sides leaves 64 bits"),
        ("sides-wrap", encode([2, 2**32, 2**32, *_SIDES[1:]]), "coordinates", "2^64 more coordinates are 0 more"),
        ("number-cut", encode(_SIDES)[:-1] + b"\x80", "parameters", "the last number's continuation is missing"),
        ("number-padded", encode(_SIDES)[:-1] + b"\x81\x00", "parameters", "one number would have many encodings"),
        ("number-too-long", encode(_SIDES)[:-1] + b"\xff" * 10 + b"\1", "parameters", "a number of 71 bits"),
        ("numbers-all-ones", b"\xff" * 1500, "parameters", "a number that never ends"),
    ):
        yield parts.with_params(given, what, says=says, why=why)


def _huge(parts: Parts) -> Iterator[Case]:
    for what, sides, why in (
        ("outer-product-of-2e21", [1, 2**10, 2**11], "rank 1 pays for the sides only, not for what they span"),
        ("row-of-2e21", [1, 1, 2**21], "a matrix that its factors do not shorten"),
        ("nine-hundred-scalars", [1] + [1, 1] * 900, "two bytes a matrix, and a loop over them"),
    ):
        dim = sum(rows * columns for rows, columns in zip(sides[1::2], sides[2::2], strict=True))
        payload = replace(parts, dim=dim, params=varint.encode(sides), body=struct.pack("<f", 1)).packed()
        yield Case(f"powersgd-{what}", payload, InvalidParams, "bytes of body", why)
