"""The payload on the wire, format version 1: a fixed header of 32 bytes, the scheme's parameters, the body.

======  =====  ================================================================================
offset  bytes  field (little-endian)
======  =====  ================================================================================
0       4      magic ``FDCP``
4       1      format version, 1
5       1      scheme number (``fedcomp.compressors.catalogue``)
6       2      length of the scheme's parameters
8       8      dim: how many coordinates the vector has
16      8      length of the body
24      4      fingerprint of the seed (``fedcomp.seeds.seed_fingerprint``)
28      4      CRC-32 of everything else
32      …      parameters, then body
======  =====  ================================================================================

The CRC finds every damage within any 32 neighbouring bits; it is not authentication, so a reader still checks dim and
lengths before it allocates anything. This module knows numpy at most, never torch.
"""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import dataclass

from fedcomp.errors import (
    BadMagic,
    ChecksumMismatch,
    DimMismatch,
    SeedMismatch,
    TrailingBytes,
    Truncated,
    UnsupportedVersion,
)
from fedcomp.seeds import seed_fingerprint

MAGIC = b"FDCP"
VERSION = 1
HEADER_BYTES = 32
MAX_DIM = 2**33
"""Largest dim that a reader accepts unless told otherwise."""

_BEFORE_CHECKSUM = struct.Struct("<4sBBHQQI")
_CHECKSUM = struct.Struct("<I")

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Header:
    """A payload's header, checked against the payload's length."""

    version: int
    scheme: int
    dim: int
    params: bytes
    body_bytes: int
    fingerprint: int
    checksum: int


def pack(*, scheme: int, dim: int, params: bytes, body: Buffer, seed: int) -> bytes:
    """Return header + params + body as one payload. Cost: one copy and one CRC of the body."""
    start = _BEFORE_CHECKSUM.pack(MAGIC, VERSION, scheme, len(params), dim, len(body), seed_fingerprint(seed))
    checksum = zlib.crc32(body, zlib.crc32(params, zlib.crc32(start)))
    return b"".join((start, _CHECKSUM.pack(checksum), params, body))


def read_header(payload: Buffer) -> Header:
    """Read the header and check that the payload has exactly the length it says.

    Raises
    ------
    BadMagic, UnsupportedVersion, Truncated, TrailingBytes
        Each naming what was found and what was expected.
    """
    view = memoryview(payload).cast("B")
    found = bytes(view[: len(MAGIC)])
    if found != MAGIC[: len(found)]:
        raise BadMagic(f"payload begins with {found!r}, a fedcomp payload with {MAGIC!r}; it is something else")
    if len(view) < HEADER_BYTES:
        raise Truncated(f"payload has {len(view)} bytes, its header alone {HEADER_BYTES}; send it again")
    _, version, scheme, params_bytes, dim, body_bytes, fingerprint = _BEFORE_CHECKSUM.unpack_from(view)
    if version != VERSION:
        raise UnsupportedVersion(f"payload has format version {version}, this release reads {VERSION}; align versions")
    expected = HEADER_BYTES + params_bytes + body_bytes
    if len(view) < expected:
        raise Truncated(f"payload has {len(view)} bytes, its header says {expected}; send it again")
    if len(view) > expected:
        raise TrailingBytes(f"payload has {len(view)} bytes, its header says {expected}; drop what follows")
    (checksum,) = _CHECKSUM.unpack_from(view, _BEFORE_CHECKSUM.size)
    params = bytes(view[HEADER_BYTES : HEADER_BYTES + params_bytes])
    return Header(version, scheme, dim, params, body_bytes, fingerprint, checksum)


def unpack(
    payload: Buffer, *, seed: int, expected_dim: int | None = None, max_dim: int = MAX_DIM
) -> tuple[Header, memoryview]:
    """Return the checked header and a view of the body; nothing of the size of ``dim`` is allocated.

    Raises
    ------
    PayloadError
        BadMagic, UnsupportedVersion, Truncated, TrailingBytes, DimMismatch, ChecksumMismatch or SeedMismatch.
    """
    header = read_header(payload)
    if expected_dim is not None and header.dim != expected_dim:
        raise DimMismatch(f"payload has dim {header.dim}, expected is {expected_dim}; it is of another model")
    if header.dim > max_dim:
        raise DimMismatch(f"payload claims dim {header.dim}, allowed is at most {max_dim}; raise max_dim if it is true")
    view = memoryview(payload).cast("B")
    checksum = zlib.crc32(view[HEADER_BYTES:], zlib.crc32(view[: _BEFORE_CHECKSUM.size]))
    if checksum != header.checksum:
        raise ChecksumMismatch(
            f"payload has checksum {checksum:#010x}, its header {header.checksum:#010x}; it was damaged, send again"
        )
    if seed_fingerprint(seed) != header.fingerprint:
        raise SeedMismatch(
            f"seed {seed} is not the one that the payload of dim {header.dim} was encoded with; "
            "check run, round, client and purpose"
        )
    return header, view[HEADER_BYTES + len(header.params) :]


def bits_per_coordinate(payload: Buffer) -> float:
    """Return 8·len(payload)/dim, header included; infinite for dim 0.

    Raises
    ------
    BadMagic, UnsupportedVersion, Truncated, TrailingBytes
        When the bytes are not one whole payload.
    """
    header = read_header(payload)
    return 8 * len(memoryview(payload).cast("B")) / header.dim if header.dim else math.inf
