"""EDEN with pools of like energy: a table of labels, rates of pools, then blocks as eden has them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import torch

from fedcomp.coding import varint
from fedcomp.errors import NonFinite
from tests.hostile.cases.case import INF, NAN, Case, Parts, honest, lengths_and_dims, overwrite

_PREFIX = struct.Struct("<IhH")


def cases() -> Iterator[Case]:
    # 1,024 coordinates of up to 3, 1,030 of a hundredth of it, and zeros: two pools, and a raw tail of six.
    x = torch.zeros(5000)
    x[:1024] = torch.linspace(-3, 3, 1024)
    x[1024:2054] = torch.linspace(-0.03, 0.03, 1030)
    parts = replace(honest("adaptive", "eden:bits=2,allocation=adaptive", x), name="eden-adaptive")
    yield from lengths_and_dims(parts, body_says="")
    yield from _params(parts)
    yield from _prefix(parts)
    yield from _table(parts)
    yield from _rates(parts)


def _split(parts: Parts) -> tuple[int, int, int, bytes, bytes]:
    """Return bytes of the table, floor, number of pools, the table, and what follows it."""
    length, floor, pools = _PREFIX.unpack(parts.body[: _PREFIX.size])
    end = _PREFIX.size + length
    return length, floor, pools, parts.body[_PREFIX.size : end], parts.body[end:]


def _params(parts: Parts) -> Iterator[Case]:
    rate, log_block, rounds, flags, raw = struct.unpack("<IBBBB", parts.params)
    for what, fields, why in (
        ("rate-given", (65536, log_block, rounds, flags, raw), "one rate for all beside rates of pools"),
        ("not-announced", (rate, log_block, rounds, flags & 1, 0), "a table is read as scales"),
        ("raw-of-dim", (rate, log_block, rounds, flags, 5000 % 256), "the tail is that of the last pool, not of dim"),
        ("block-2e24", (rate, 24, rounds, flags, raw), "signs for a block of this size are allocated"),
    ):
        yield parts.with_params(struct.pack("<IBBBB", *fields), what, says="", why=why)


def _prefix(parts: Parts) -> Iterator[Case]:
    length, floor, pools, _, _ = _split(parts)
    for what, fields, says, why in (
        ("table-shorter", (length - 1, floor, pools), "table", "the last labels are cut off"),
        ("table-longer", (length + 1, floor, pools), "table", "a rate is taken for labels"),
        ("table-beyond-the-end", (2**32 - 1, floor, pools), "do not fit", "a length that is trusted"),
        ("no-pools", (length, floor, 0), "pools", "rates are taken for scales"),
        ("a-pool-more", (length, floor, pools + 1), "pools", "a scale is taken for a rate"),
        ("pools-65535", (length, floor, 2**16 - 1), "do not fit", "a number that is trusted"),
        ("floor-highest", (length, 2**15 - 1, pools), "pools", "all classes are one, with fewer pools than announced"),
    ):
        yield parts.with_body(overwrite(parts.body, 0, _PREFIX.pack(*fields)), what, says=says, why=why)


def _table(parts: Parts) -> Iterator[Case]:
    _, floor, pools, table, rest = _split(parts)
    head = varint.decode(table[1 : 1 + table[0]]) or []
    labels = table[1 + table[0] :]
    for what, numbers, why in (
        ("models-none", [0, *head[1:]], "a model without its count"),
        ("models-2e62", [2**62, *head[1:]], "a loop over a count that is trusted"),
        ("base-beyond", [head[0], 2**13 + 1, *head[2:]], "labels leave 16 bits"),
        ("low-bits-63", [*head[:2], 63, *head[3:]], "a shift by 63 bits"),
        ("kind-2", [*head[:3], 2, *head[4:]], "a model of a later release"),
        ("unit-0", [*head[:5], 0, *head[6:]], "a division by zero"),
        ("unit-1", [*head[:5], 1, *head[6:]], "as many labels as coordinates"),
        ("size-2e62", [*head[:4], 2**62, *head[5:]], "labels for a size that is trusted"),
        ("size-less", [*head[:4], head[4] - 1, *head[5:]], "a coordinate that no model describes"),
        ("outer-2e40", [*head[:3], 1, 2**40, 2**40], "the product of the sides leaves 64 bits"),
    ):
        packed = varint.encode(numbers)
        changed = varint.encode([len(packed)]) + packed + labels
        body = _PREFIX.pack(len(changed), floor, pools) + changed + rest
        yield parts.with_body(body, f"table-{what}", says="table", why=why)
    for what, given, why in (
        ("empty", b"", "numbers are read from nothing"),
        ("length-endless", b"\xff" * len(table), "a length whose continuation never ends"),
        ("labels-zero", table[: -len(labels)] + bytes(len(labels)), "a codeword that never ends"),
        ("labels-ones", table[: -len(labels)] + b"\xff" * len(labels), "bits are left over"),
    ):
        body = _PREFIX.pack(len(given), floor, pools) + given + rest
        yield parts.with_body(body, f"table-{what}", says="", why=why)


def _rates(parts: Parts) -> Iterator[Case]:
    length, _, pools, _, _ = _split(parts)
    start = _PREFIX.size + length
    for what, value, says in (
        ("above-eight", 2**15 + 1, "rates"),
        ("largest", 2**16 - 1, "rates"),
        ("other", 0, "blocks"),
    ):
        body = overwrite(parts.body, start, struct.pack("<H", value))
        yield parts.with_body(body, f"rate-{what}", says=says, why="the bytes of the codes are another number")
    scales = start + 2 * pools
    for what, number in (("nan", NAN), ("infinite", INF)):
        yield parts.with_floats(
            scales, number, what=f"scale-{what}", says=str(number), why="a scale that is not finite"
        )
    payload = replace(parts, body=overwrite(parts.body, len(parts.body) - 4, b"\0\0\x80\x7f")).packed()
    if parts.params[-1]:
        yield Case(f"{parts.name}-raw-infinite", payload, NonFinite, "inf", "a raw coordinate that is not finite")
