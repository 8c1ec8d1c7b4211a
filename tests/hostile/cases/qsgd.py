"""qsgd: levels in whole bits, or in Elias codes, dense or sparse."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import torch

from fedcomp.coding import elias, levels
from fedcomp.errors import InvalidParams
from tests.hostile.cases.case import Case, Parts, honest, lengths_and_dims, not_finite, overwrite

_DIM = 64


def cases() -> Iterator[Case]:
    packed = honest("qsgd", "qsgd:levels=4", _DIM)
    yield from lengths_and_dims(packed)
    yield from _params(packed, forms=(2, 3, 255))
    yield from not_finite(packed, "norm", 0)
    body = overwrite(packed.body, 9, b"\x0f")
    yield packed.with_body(body, "level-15-of-8", says="above 4", why="four bits hold more than 2·4 + 1 levels")

    alternating = torch.tensor([0.0, 1.0]).repeat(_DIM // 2)
    alternating[-1] = 0
    dense = honest("qsgd-dense", "qsgd:levels=4,coding=entropy,norm=max", alternating)
    yield from _elias(dense, mode=levels.DENSE)
    spike = torch.zeros(_DIM)
    spike[[3, 20, 50]] = torch.tensor([1.0, -1.0, 1.0])
    sparse = honest("qsgd-sparse", "qsgd:levels=4,coding=entropy,norm=max", spike)
    yield from _elias(sparse, mode=levels.SPARSE)
    yield from _gaps(sparse)


def _params(parts: Parts, *, forms: Sequence[int]) -> Iterator[Case]:
    count, form, bucket = struct.unpack("<BBI", parts.params[:6])
    rest = parts.params[6:]
    for what, given, says, why in (
        ("levels-0", (0, form, bucket), "levels 0", "levels are divided by their number"),
        ("levels-128", (128, form, bucket), "levels 128", "2·128 + 1 levels need more than a byte"),
        ("levels-255", (255, form, bucket), "levels 255", "2·255 + 1 levels need more than a byte"),
        ("bucket-0", (count, form, 0), "bucket 0", "dim is divided by the bucket"),
        ("bucket-4", (count, form, 4), "bucket 4", "codes of half a byte"),
        ("bucket-12", (count, form, 12), "bucket 12", "codes of half a byte"),
        ("bucket-65544", (count, form, 65544), "bucket 65544", "a norm for too many coordinates"),
        ("bucket-2e32", (count, form, 2**32 - 8), "bucket 4294967288", "a norm for any number of coordinates"),
        ("bucket-of-more-norms", (count, form, 32), "qsgd", "codes are taken for norms"),
        *((f"form-{other}", (count, other, bucket), f"form {other}", "another norm or coding") for other in forms),
    ):
        yield parts.with_params(struct.pack("<BBI", *given) + rest, what, says=says, why=why)


def _elias(parts: Parts, *, mode: int) -> Iterator[Case]:
    yield from lengths_and_dims(parts, body_says="qsgd")
    yield from _params(parts, forms=(0, 1, 6, 255))
    other = parts.params[:1] + bytes([3 if mode == levels.SPARSE else 5]) + parts.params[2:]
    yield parts.with_params(
        other, "form-swapped", says="Elias", why="dense codes are read as sparse ones, or the reverse"
    )
    yield from not_finite(parts, "norm", 0)
    (nonzeros,) = struct.unpack("<Q", parts.params[6:])
    for what, count in (("less", nonzeros - 1), ("more", nonzeros + 1), ("none", 0), ("2e64", 2**64 - 1)):
        params = parts.params[:6] + struct.pack("<Q", count)
        yield parts.with_params(params, f"nonzeros-{what}", says="Elias", why="signs are counted by it")
    norm, codes = parts.body[:4], parts.body[4:]
    yield parts.with_body(norm[:3], "norm-cut", says="of norms", why="the codes begin before the norms end")
    for what, changed, why in (
        ("padding-bit", overwrite(codes, -1, bytes([codes[-1] | 0x80])), "one payload would have many encodings"),
        ("codes-all-ones", b"\xff" * len(codes), "each group of a codeword says that a longer one follows"),
        ("codes-all-zeros", bytes(len(codes)), "bits are left over"),
    ):
        yield parts.with_body(norm + changed, what, says="Elias", why=why)
    magnitudes = np.ones(_DIM, dtype=np.int64)
    magnitudes[7] = 5
    above = _codes(magnitudes + 1, np.zeros(_DIM)) if mode == levels.DENSE else _sparse_codes([8], [5])
    params = parts.params[:6] + struct.pack("<Q", _DIM if mode == levels.DENSE else 1)
    payload = replace(parts, params=params, body=norm + above).packed()
    yield Case(f"{parts.name}-level-5-of-4", payload, InvalidParams, "above 4", "a coordinate larger than the norm")


def _gaps(parts: Parts) -> Iterator[Case]:
    norm, why = parts.body[:4], "a write past the end of the vector"
    for what, gaps in (("one-beyond-dim", [4, 17, 44]), ("2e47", [4, 2**47, 30]), ("all-2e48", [2**48 - 1] * 3)):
        yield parts.with_body(norm + _sparse_codes(gaps, [1, 1, 1]), f"gap-{what}", says="Elias", why=why)
    one = replace(parts, params=parts.params[:6] + struct.pack("<Q", 1))
    codes = _sparse_codes([4], [2**62])
    yield one.with_body(norm + codes, "magnitude-2e62", says="Elias", why="a number beyond float64's exact integers")
    # In the codeword of 2^62 the group that says 62 begins at bit 6; it is made 63, and one more bit follows.
    wide = elias.encode(np.array([2**62]))
    wide[6] = 1
    bits = np.concatenate([np.insert(wide, 12, 0), elias.encode(np.array([1])), np.zeros(1, dtype=np.uint8)])
    codes = np.packbits(bits, bitorder="little").tobytes()
    yield one.with_body(norm + codes, "gap-2e63", says="Elias", why="the leading bit is the sign: a negative gap")


def _sparse_codes(gaps: list[int], magnitudes: list[int]) -> bytes:
    return _codes(np.array(gaps), np.array(magnitudes), np.zeros(len(gaps)))


def _codes(*numbers: np.ndarray) -> bytes:
    """Return the Elias codes of all but the last array, then its numbers as sign bits."""
    bits = [elias.encode(values.astype(np.int64)) for values in numbers[:-1]]
    return np.packbits(np.concatenate([*bits, numbers[-1].astype(np.uint8)]), bitorder="little").tobytes()
