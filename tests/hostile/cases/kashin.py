"""kashin: the codes of more coefficients than coordinates, and a reach a block."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from tests.hostile.cases.case import Case, honest, lengths_and_dims, not_finite, overwrite


def cases() -> Iterator[Case]:
    # One block of 256 with 512 coefficients, and a raw tail of four. The body: a reach, the codes, the raw tail.
    parts = honest("kashin", "kashin:bits=2,expansion=2", 260)
    yield from lengths_and_dims(parts)
    bits, expansion, raw = parts.params
    for what, given, says, why in (
        ("bits-0", (0, expansion, raw), "bits 0", "the step divides by 2^0 − 1"),
        ("bits-9", (9, expansion, raw), "bits 9", "there are no planes of nine bits"),
        ("bits-255", (255, expansion, raw), "bits 255", "2^255 levels"),
        ("bits-of-longer-codes", (bits + 1, expansion, raw), "bytes of body", "codes are read into the raw tail"),
        ("expansion-0", (bits, 0, raw), "expansion 0", "a block is 2^14 coefficients divided by the expansion"),
        ("expansion-1", (bits, 1, raw), "expansion 1", "a rotation, and no Kashin coefficients"),
        ("expansion-3", (bits, 3, raw), "expansion 3", "blocks that are no power of two"),
        ("expansion-16", (bits, 16, raw), "expansion 16", "each coefficient costs time"),
        ("expansion-255", (bits, 255, raw), "expansion 255", "blocks that are no power of two"),
        ("expansion-of-longer-codes", (bits, 4, raw), "bytes of body", "codes are read into the raw tail"),
        ("raw-1", (bits, expansion, 1), "raw 1", "a tail of another length than dim leaves"),
        ("raw-none", (bits, expansion, 0), "bytes of body", "the tail is taken for a padded block's codes"),
    ):
        yield parts.with_params(bytes(given), what, says=says, why=why)
    yield from not_finite(parts, "reach", 0)
    yield from not_finite(parts, "raw-coordinate", -4)
    body = overwrite(parts.body, 0, struct.pack("<f", -1.0))
    yield parts.with_body(body, "reach-negative", says="below zero", why="the signs of a block's levels change")
