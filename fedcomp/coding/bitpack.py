"""Packing of b-bit integers, b = 1…8, into exactly n·b/8 bytes a row.

b is a sum of planes of 4, 2 and 1 bits (8 is one plane of its own). A plane of w bits packs 8/w integers a byte:
byte j of a plane holds those at positions j, j + n·w/8, j + 2·n·w/8, …, least significant first. Neighbouring integers
thus go to neighbouring bytes, and packing is a few shifts of whole contiguous slices on any device.
"""

from __future__ import annotations

import torch
from torch import Tensor

_PLANES = {1: (1,), 2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1), 8: (8,)}


def pack_bits(values: Tensor, bits: int) -> Tensor:
    """Map integers in [0, 2^bits) of shape (m, n), n a multiple of 8, to uint8 of shape (m, n·bits/8)."""
    m, n = values.shape
    values = values.to(torch.uint8)
    planes = []
    shift = 0
    for width in _PLANES[bits]:
        per_byte = 8 // width
        part = (values >> shift) & (2**width - 1)
        slices = part.view(m, per_byte, n // per_byte)
        packed = slices[:, 0].clone()
        for index in range(1, per_byte):
            packed |= slices[:, index] << (index * width)
        planes.append(packed)
        shift += width
    return torch.cat(planes, dim=1)


def unpack_bits(packed: Tensor, bits: int, count: int) -> Tensor:
    """Undo ``pack_bits``: uint8 of shape (m, count·bits/8) to integers of shape (m, count), uint8."""
    m = packed.shape[0]
    values = torch.zeros((m, count), dtype=torch.uint8, device=packed.device)
    shift = start = 0
    for width in _PLANES[bits]:
        per_byte = 8 // width
        length = count // per_byte
        plane = packed[:, start : start + length]
        slices = values.view(m, per_byte, length)
        for index in range(per_byte):
            slices[:, index] |= ((plane >> (index * width)) & (2**width - 1)) << shift
        start += length
        shift += width
    return values
