"""One case of the corpus, and the honest payload that it is made from."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

import fedcomp
from fedcomp.errors import DimMismatch, InvalidParams, NonFinite, PayloadError
from fedcomp.wire import HEADER_BYTES, MAX_DIM, pack, read_header
from tests.support import codec

SEED = 11
NAN, INF = float("nan"), float("inf")


@dataclass(frozen=True)
class Case:
    """A payload that must be refused.

    Attributes
    ----------
    name
        The file's name without its suffix: the scheme, then what is wrong.
    payload
        Its bytes.
    error
        The exact class of the error.
    says
        What the message holds.
    why
        What a decoder might do that does not look.
    expected_dim
        What the reader expects, where that is what is wrong.
    """

    name: str
    payload: bytes
    error: type[PayloadError]
    says: str
    why: str
    expected_dim: int | None = None


@dataclass(frozen=True)
class Parts:
    """A payload taken apart; ``packed`` puts it together with true lengths, fingerprint and checksum."""

    name: str
    scheme: int
    dim: int
    params: bytes
    body: bytes

    @classmethod
    def of(cls, name: str, payload: bytes) -> Self:
        """Take a payload apart."""
        header = read_header(payload)
        return cls(name, header.scheme, header.dim, header.params, payload[HEADER_BYTES + len(header.params) :])

    def packed(self) -> bytes:
        return pack(scheme=self.scheme, dim=self.dim, params=self.params, body=self.body, seed=SEED)

    def checked(self) -> Self:
        """Return the same once it is seen to decode: a case has one thing wrong."""
        fedcomp.decode(self.packed(), seed=SEED)
        return self

    def with_params(self, params: bytes, what: str, *, says: str, why: str) -> Case:
        return Case(f"{self.name}-{what}", replace(self, params=params).packed(), InvalidParams, says, why)

    def with_body(self, body: bytes, what: str, *, says: str, why: str) -> Case:
        return Case(f"{self.name}-{what}", replace(self, body=body).packed(), InvalidParams, says, why)

    def with_floats(self, offset: int, *values: float, what: str, says: str, why: str) -> Case:
        """Overwrite float32 numbers of the body by some that are not finite or will not stay so."""
        new = struct.pack(f"<{len(values)}f", *values)
        body = overwrite(self.body, offset, new)
        return Case(f"{self.name}-{what}", replace(self, body=body).packed(), NonFinite, says, why)


def honest(name: str, spec: str, x: int | Tensor) -> Parts:
    """Return the payload of a vector, or of one of so many coordinates whose mean is worth sending."""
    vector = torch.linspace(1, 3, x) if isinstance(x, int) else x
    return Parts.of(name, codec.encode(spec, vector, seed=SEED)).checked()


def overwrite(data: bytes, offset: int, new: bytes) -> bytes:
    """Return the data with some bytes replaced; a negative offset counts from the end."""
    start = offset % len(data)
    return data[:start] + new + data[start + len(new) :]


def not_finite(parts: Parts, place: str, offset: int) -> Iterator[Case]:
    """Yield a NaN and an infinity at one float32 number of the body."""
    why = f"a {place} that is not finite makes the whole mean so"
    for what, value in (("nan", NAN), ("infinite", -INF)):
        yield parts.with_floats(offset, value, what=f"{place}-{what}", says=str(value), why=why)


def lengths_and_dims(parts: Parts, *, body_says: str | None = None) -> Iterator[Case]:
    """Yield what every scheme must refuse: parameters and bodies of another length, and another dim.

    The message of a body holds its length, or else ``body_says``.
    """
    params, body = parts.params, parts.body
    if params:
        yield parts.with_params(params[:-1], "params-short", says="parameters", why="unpacking the parameters fails")
    yield parts.with_params(params + b"\1", "params-long", says="parameters", why="what is left over is ignored")
    for what, given, why in (
        ("short", body[:-1], "the last number is read past the end"),
        ("long", body + b"\0", "one payload would have many encodings"),
        ("empty", b"", "views of nothing are reshaped"),
    ):
        says = str(len(given)) if body_says is None else body_says
        yield parts.with_body(given, f"body-{what}", says=says, why=why)
    # What is left over of the blocks stays as it is, so that only the body's length is wrong.
    limit = MAX_DIM - 256 + parts.dim % 256
    why = "the header's dim is taken for granted and allocated"
    for what, dim in (("zero", 0), ("larger", parts.dim + 2**20), ("at-limit", limit)):
        yield Case(f"{parts.name}-dim-{what}", replace(parts, dim=dim).packed(), InvalidParams, "", why)
    payload, why = replace(parts, dim=2**60).packed(), "lengths computed from dim leave 64 bits"
    yield Case(f"{parts.name}-dim-2e60", payload, DimMismatch, str(2**60), why)
