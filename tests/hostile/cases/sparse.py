"""Schemes that send some coordinates only: topk, randk."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from fedcomp.coding import eliasfano
from fedcomp.errors import InvalidParams
from tests.hostile.cases.case import Case, Parts, honest, lengths_and_dims, not_finite

_DIM = 300
_PLACES = list(range(4, _DIM, 10))


def cases() -> Iterator[Case]:
    topk = honest("topk", "topk:fraction=0.1", _DIM)
    topk = replace(topk, body=_places(_PLACES) + topk.body[-4 * len(_PLACES) :]).checked()
    yield from lengths_and_dims(topk)
    yield from _counts(topk)
    yield from _topk_places(topk)
    yield from not_finite(topk, "value", -4)
    yield from _too_few(topk, "one-place-of-2e21", 2**21, eliasfano.encode(np.array([9]), 2**21) + bytes(4))

    randk = honest("randk", "randk:fraction=0.05", _DIM)
    yield from lengths_and_dims(randk)
    yield from _counts(randk)
    yield from not_finite(randk, "value", -4)
    yield randk.with_floats(
        0, 3e38, what="value-overflows", says="not finite", why="a finite value, and infinite once scaled by dim/k"
    )
    yield from _too_few(randk, "one-value-of-2e21", 2**21, bytes(4))


def _counts(parts: Parts) -> Iterator[Case]:
    (count,) = struct.unpack("<Q", parts.params)
    for what, given, says in (
        ("count-zero", 0, "0 of 300"),
        ("count-less", count - 1, "bytes of body"),
        ("count-more", count + 1, "bytes of body"),
        ("count-above-dim", _DIM + 1, "301 of 300"),
        ("count-2e64", 2**64 - 1, f"{2**64 - 1} of 300"),
    ):
        yield parts.with_params(struct.pack("<Q", given), what, says=says, why="a count that the body does not have")
    # True to its length, and a vector of nothing but zeros for a header alone.
    yield from _too_few(parts, "nothing-of-2e21", 2**21, b"", count=0)


def _too_few(parts: Parts, what: str, dim: int, body: bytes, *, count: int = 1) -> Iterator[Case]:
    payload = replace(parts, dim=dim, params=struct.pack("<Q", count), body=body).packed()
    why = "true to its length, so that a few bytes would allocate 16 GiB"
    yield Case(f"{parts.name}-{what}", payload, InvalidParams, f"{count} of {dim}", why)


def _topk_places(parts: Parts) -> Iterator[Case]:
    values = parts.body[-4 * len(_PLACES) :]
    for what, places, why in (
        ("equal", [*_PLACES[:-1], _PLACES[-2]], "the last value written wins, on one device or another"),
        ("decreasing", [5, *_PLACES[:-1]], "order is what makes an encoding unique"),
        ("beyond-dim", [*_PLACES[:-1], _DIM], "a write past the end of the vector"),
        ("far-beyond-dim", [*_PLACES[:-1], _DIM + 3], "a write past the end of the vector"),
    ):
        yield parts.with_body(_places(places) + values, f"places-{what}", says="places", why=why)
    code = _places(_PLACES)
    # The last byte of the code is that of the highest places: three bits of it are used.
    for what, byte in (("one-missing", 0), ("one-more", code[-1] | 1), ("padding-bit", code[-1] | 0x80)):
        body = code[:-1] + bytes([byte]) + values
        yield parts.with_body(body, f"places-{what}", says="places", why="as many ones as there are places")


def _places(places: list[int]) -> bytes:
    return eliasfano.encode(np.array(places), _DIM)
