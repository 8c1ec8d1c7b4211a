"""Numbers in as few bytes as they need: LEB128, seven bits a byte, least significant first."""

from __future__ import annotations

from collections.abc import Iterable

MAX_BYTES = 9
"""Bytes of the longest number, which is below 2^63."""


def encode(numbers: Iterable[int]) -> bytes:
    """Map integers in [0, 2^63) to bytes."""
    out = bytearray()
    for number in numbers:
        rest = number
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


def decode(data: bytes | memoryview) -> list[int] | None:
    """Undo ``encode``; None when the last number is cut off, or one is not in its shortest form or too long."""
    numbers: list[int] = []
    value = shift = 0
    for byte in bytes(data):
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte & 0x80:
            if shift >= 7 * MAX_BYTES:
                return None
            continue
        if byte == 0 and shift > 7:
            return None
        numbers.append(value)
        value = shift = 0
    return numbers if shift == 0 else None
