"""Reads idx files, the form of MNIST and EMNIST: a magic number, the sizes, then unsigned bytes.

Source: LeCun, Cortes, Burges, The MNIST database, section "File formats".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from fedcomp.data.compressed import reading
from fedcomp.data.errors import MalformedData, TruncatedData

_UNSIGNED_BYTE = 0x08
_BLOCK = 4096  # rows read at once


def idx_blocks(path: Path, *, row_shape: tuple[int, ...]) -> Iterator[NDArray[np.uint8]]:
    """Yield the rows of a plain or compressed idx file of bytes, some thousands at a time: uint8 (m, *row_shape).

    Raises
    ------
    MissingData, TruncatedData, DamagedData
        When the file is absent, ends too early or has a wrong checksum.
    MalformedData
        When it is no idx file of bytes with rows of this shape, or goes on after its last row.
    """
    with reading(path) as file:
        sizes = _read_header(file, path, dimensions=1 + len(row_shape))
        if sizes[1:] != row_shape:
            raise MalformedData(f"{path} has rows of shape {sizes[1:]}, expected {row_shape}")
        row = math.prod(row_shape)
        for start in range(0, sizes[0], _BLOCK):
            count = min(_BLOCK, sizes[0] - start)
            content = _read(file, count * row)
            if len(content) != count * row:
                raise TruncatedData(
                    f"{path} ends after {start * row + len(content)} bytes of data, expected {sizes[0] * row} "
                    f"({sizes[0]} rows); get it again"
                )
            yield np.frombuffer(content, dtype=np.uint8).reshape(count, *row_shape)
        # This also makes a decompressor compare its checksum.
        if file.read(1):
            raise MalformedData(f"{path} goes on after its {sizes[0]} rows; get it again")


def _read_header(file: BinaryIO, path: Path, *, dimensions: int) -> tuple[int, ...]:
    magic = bytes([0, 0, _UNSIGNED_BYTE, dimensions])
    found = _read(file, 4)
    header = _read(file, 4 * dimensions)
    if len(found) < 4 or (found == magic and len(header) < 4 * dimensions):
        raise TruncatedData(f"{path} ends within its header of {4 + 4 * dimensions} bytes; get it again")
    if found != magic:
        raise MalformedData(f"{path} begins with {found.hex()}, expected {magic.hex()}: it is no idx file of this kind")
    return tuple(int.from_bytes(header[at : at + 4], "big") for at in range(0, len(header), 4))


def _read(file: BinaryIO, count: int) -> bytes:
    """Read ``count`` bytes, fewer only at the end of the file."""
    parts = []
    while count and (part := file.read(count)):
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
