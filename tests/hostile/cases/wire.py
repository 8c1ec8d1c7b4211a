"""The header: what is refused before any scheme sees the payload."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from fedcomp.errors import (
    BadMagic,
    ChecksumMismatch,
    DimMismatch,
    InvalidParams,
    SeedMismatch,
    TrailingBytes,
    Truncated,
    UnknownScheme,
    UnsupportedVersion,
)
from fedcomp.wire import MAX_DIM, pack
from tests.hostile.cases.case import SEED, Case, honest, overwrite

_CHECKED = 28
"""Bytes of the header before its checksum."""


def cases() -> Iterator[Case]:
    parts = honest("wire", "identity", 4)
    payload = parts.packed()
    yield from _beginnings(payload)
    yield from _lengths(payload)
    for what, dim in (("above-limit", MAX_DIM + 1), ("2e63", 2**63), ("2e64", 2**64 - 1)):
        claimed = replace(parts, dim=dim).packed()
        yield Case(f"wire-dim-{what}", claimed, DimMismatch, str(dim), "16 bytes of body claim a huge vector")
    yield Case("wire-dim-of-other-model", payload, DimMismatch, "expected is 5", "models of two sizes are added up", 5)
    yield from _checksums(payload)
    other = pack(scheme=0, dim=4, params=b"", body=parts.body, seed=SEED + 1)
    yield Case("wire-seed-other", other, SeedMismatch, "seed 11", "the rotation of another seed decodes to noise")
    flipped = _mended(overwrite(payload, 24, bytes([payload[24] ^ 1])))
    yield Case("wire-fingerprint-bit", flipped, SeedMismatch, "seed 11", "only a part of the fingerprint is compared")


def _beginnings(payload: bytes) -> Iterator[Case]:
    page = b"<html><body>502 Bad Gateway</body></html>\n"
    yield Case("wire-error-page", page, BadMagic, "<htm", "a proxy's answer is taken for a payload")
    yield Case("wire-magic-case", _mended(b"fdcp" + payload[4:]), BadMagic, "fdcp", "magic compared without case")
    yield Case("wire-magic-short", b"FDX", BadMagic, "FDX", "fewer bytes than a header, and not even its beginning")
    for version in (0, 2, 255):
        other = _mended(overwrite(payload, 4, bytes([version])))
        yield Case(f"wire-version-{version}", other, UnsupportedVersion, f"version {version}", "read as version 1")
    for number in (127, 255):
        other = _mended(overwrite(payload, 5, bytes([number])))
        yield Case(f"wire-scheme-{number}", other, UnknownScheme, str(number), "a scheme of a later release")


def _lengths(payload: bytes) -> Iterator[Case]:
    yield Case("wire-empty", b"", Truncated, "0 bytes", "nothing arrived")
    yield Case("wire-magic-only", payload[:4], Truncated, "4 bytes", "a header is unpacked from four bytes")
    yield Case("wire-header-cut", payload[:31], Truncated, "31 bytes", "the checksum is read past the end")
    yield Case("wire-header-only", payload[:32], Truncated, "48", "the connection broke after the header")
    yield Case("wire-body-cut", payload[:-1], Truncated, "48", "the connection broke at the last byte")
    yield Case("wire-trailing-byte", payload + b"\0", TrailingBytes, "49 bytes", "the checksum covers it or does not")
    yield Case("wire-two-payloads", payload + payload, TrailingBytes, "96 bytes", "the second one is lost")
    for what, length, error in (
        ("less", 15, TrailingBytes),
        ("more", 17, Truncated),
        ("2e63", 2**63, Truncated),
        ("2e64", 2**64 - 32, Truncated),
    ):
        other = _mended(overwrite(payload, 16, struct.pack("<Q", length)))
        yield Case(f"wire-body-length-{what}", other, error, str(32 + length), "header and payload disagree on lengths")
    longest = _mended(overwrite(payload, 6, b"\xff\xff"))
    yield Case("wire-params-length-longest", longest, Truncated, "65583", "parameters are read past the end")
    moved = _mended(overwrite(overwrite(payload, 6, b"\1\0"), 16, struct.pack("<Q", 15)))
    yield Case("wire-params-length-moved", moved, InvalidParams, "parameters", "the sum of the lengths is right")


def _checksums(payload: bytes) -> Iterator[Case]:
    why = "damage on the way passes for data"
    for what, offset in (("scheme", 5), ("dim", 8), ("body", -1)):
        damaged = overwrite(payload, offset, bytes([payload[offset] ^ 1]))
        yield Case(f"wire-checksum-{what}-bit", damaged, ChecksumMismatch, "checksum", why)
    zero = overwrite(payload, _CHECKED, bytes(4))
    yield Case("wire-checksum-zero", zero, ChecksumMismatch, "0x00000000", "zero is taken for 'no checksum'")
    body_only = overwrite(payload, _CHECKED, struct.pack("<I", zlib.crc32(payload[32:])))
    yield Case("wire-checksum-of-body-only", body_only, ChecksumMismatch, "checksum", "the header is not covered")


def _mended(payload: bytes) -> bytes:
    """Return the payload with the checksum that its bytes have."""
    checksum = zlib.crc32(payload[32:], zlib.crc32(payload[:_CHECKED]))
    return overwrite(payload, _CHECKED, struct.pack("<I", checksum))
