"""Trits, five a byte: 3^5 = 243 of a byte's 256 values, 1.6 bits each."""

from __future__ import annotations

import torch
from torch import Tensor

_PER_BYTE = 5
MAX_BYTE = 3**_PER_BYTE - 1


def trit_bytes(count: int) -> int:
    """Return the bytes of ``count`` trits."""
    return -(-count // _PER_BYTE)


def pack_trits(trits: Tensor) -> Tensor:
    """Map integers 0, 1, 2 of shape (n,) to uint8 of shape (⌈n/5⌉,); byte j holds those at j, j + m, j + 2m, …."""
    m = trit_bytes(trits.numel())
    planes = torch.nn.functional.pad(trits.to(torch.uint8), (0, _PER_BYTE * m - trits.numel())).view(_PER_BYTE, m)
    packed = planes[-1].clone()
    for plane in reversed(planes[:-1]):
        packed = packed * 3 + plane
    return packed


def unpack_trits(packed: Tensor, count: int) -> Tensor:
    """Undo ``pack_trits``; uint8 of shape (count,). Bytes above 242 are no trits: check before."""
    planes = []
    rest = packed
    for _ in range(_PER_BYTE):
        planes.append(rest % 3)
        rest = rest // 3
    return torch.cat(planes)[:count]
