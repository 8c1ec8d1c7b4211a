"""Packing of one block's indices, in the layout of ``fedcomp.coding.bitpack``, and the way back to centroids."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.kernels.cpu_jit import jit

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


@jit
def pack(indices: Bytes, bits: int, packed: Bytes) -> None:
    """Map n integers of ``bits`` bits to n·bits/8 bytes: planes of 4, 2 and 1 bits, or one of 8."""
    shift = start = 0
    while shift < bits:
        width = _plane(bits - shift)
        length = indices.size * width // 8
        _pack_plane(indices, shift, width, packed[start : start + length])
        shift += width
        start += length


@jit
def unpack(packed: Bytes, bits: int, indices: Bytes) -> None:
    """Undo ``pack``."""
    shift = start = 0
    while shift < bits:
        width = _plane(bits - shift)
        length = indices.size * width // 8
        plane = packed[start : start + length]
        mask = (1 << width) - 1
        for part in range(8 // width):
            values = indices[part * length : (part + 1) * length]
            if shift == 0:
                for j in range(length):
                    values[j] = plane[j] >> (part * width) & mask
            else:
                for j in range(length):
                    values[j] |= (plane[j] >> (part * width) & mask) << shift
        shift += width
        start += length


@jit
def _plane(rest: int) -> int:
    """Return the width of the next plane when ``rest`` bits are to be stored."""
    width = 8
    while width > rest:
        width //= 2
    return width


@jit
def _pack_plane(indices: Bytes, shift: int, width: int, plane: Bytes) -> None:
    mask = (1 << width) - 1
    for part in range(8 // width):
        values = indices[part * plane.size : (part + 1) * plane.size]
        if part == 0:
            for j in range(plane.size):
                plane[j] = values[j] >> shift & mask
        else:
            for j in range(plane.size):
                plane[j] |= (values[j] >> shift & mask) << (part * width)
