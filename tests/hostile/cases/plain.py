"""Schemes without a rotation and without places: identity, float16, bfloat16, terngrad, sign."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from fedcomp.errors import NonFinite
from tests.hostile.cases.case import Case, Parts, honest, lengths_and_dims, not_finite, overwrite


def cases() -> Iterator[Case]:
    identity = honest("identity", "identity", 4)
    yield from lengths_and_dims(identity)
    yield from not_finite(identity, "coordinate", 4)
    yield from _half(honest("float16", "float16", 8), nan=0x7E00, infinity=0xFC00)
    yield from _half(honest("bfloat16", "bfloat16", 8), nan=0x7FC0, infinity=0xFF80)
    yield from _terngrad(honest("terngrad", "terngrad", 60))
    yield from _sign(honest("sign", "sign", 8200))


def _half(parts: Parts, *, nan: int, infinity: int) -> Iterator[Case]:
    yield from lengths_and_dims(parts)
    for what, exponent in (("161", 161), ("minus-161", -161), ("largest", 2**15 - 1), ("smallest", -(2**15))):
        yield parts.with_params(
            struct.pack("<h", exponent), f"exponent-{what}", says=str(exponent), why="2^exponent leaves float64"
        )
    signalling = (infinity & 0x7FFF) + 1
    for what, bits in (("nan", nan), ("infinite", infinity), ("signalling-nan", signalling)):
        payload = replace(parts, body=overwrite(parts.body, 6, struct.pack("<H", bits))).packed()
        yield Case(
            f"{parts.name}-coordinate-{what}", payload, NonFinite, "coordinate 3", "a coordinate that is not finite"
        )


def _terngrad(parts: Parts) -> Iterator[Case]:
    yield from lengths_and_dims(parts)
    for value in (243, 255):
        body = overwrite(parts.body, 7, bytes([value]))
        yield parts.with_body(body, f"byte-{value}", says=str(value), why="a sixth trit decodes to more than the scale")
    yield from not_finite(parts, "scale", 0)


def _sign(parts: Parts) -> Iterator[Case]:
    yield from lengths_and_dims(parts)
    yield from not_finite(parts, "scale", 0)
    yield from not_finite(parts, "last-scale", 4)
