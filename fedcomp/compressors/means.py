"""Block means, sent where they pay.

A rotation spreads a block's mean over all coordinates, and the quantizer then pays for it. Sending the mean as 16 bits
and quantizing the rest costs a block 16 of its bits. The error falls with 2^(−2·rate), so those bits are worth a factor
2^(32/n) ≈ 1 + 22/n; the mean is sent where it carries a larger share of the energy.

The mean is rounded to bfloat16 and the rounded value is subtracted, so nothing is lost or biased by the rounding.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

MEAN_BYTES = 2
_WORTH = 32 * 0.6931471805599453  # 22.2: natural logarithm of what 16 bits a block are worth, times n


def worthwhile_means(sums: Tensor, energies: Tensor, lengths: Tensor) -> Tensor:
    """Return each block's mean rounded to bfloat16 where it pays to send it, else 0; float32, shape (m,).

    Parameters
    ----------
    sums, energies
        Sum and sum of squares of each block, float64, shape (m,).
    lengths
        How many coordinates of each block are not padding, shape (m,).
    """
    mean = (sums / lengths).to(torch.bfloat16).double()
    saved = mean * (2 * sums - lengths * mean)
    pays = (saved * lengths > _WORTH * energies) & torch.isfinite(mean)
    return torch.where(pays, mean, 0.0).float()


def pack_means(means: Tensor) -> bytes:
    """Return a bit a block that says whether its mean is there, then the means that are; nothing when none is."""
    values = means.cpu().numpy().astype("<f4")
    there = values != 0
    if not there.any():
        return b""
    flags: bytes = np.packbits(there, bitorder="little").tobytes()
    halves: bytes = (values[there].view("<u4") >> 16).astype("<u2").tobytes()
    return flags + halves


def means_bytes(flags: memoryview | bytes, num_blocks: int) -> int | None:
    """Return the length of ``pack_means``'s result from its beginning, or None when the beginning is no such."""
    length = -(-num_blocks // 8)
    if len(flags) < length:
        return None
    there = np.unpackbits(np.frombuffer(flags[:length], dtype=np.uint8), bitorder="little")
    if there[num_blocks:].any() or not there.any():
        return None
    return length + MEAN_BYTES * int(there.sum())


def unpack_means(data: memoryview | bytes, num_blocks: int) -> Tensor:
    """Undo ``pack_means``; float32, shape (num_blocks,)."""
    means: NDArray[np.float32] = np.zeros(num_blocks, dtype=np.float32)
    if len(data):
        length = -(-num_blocks // 8)
        there = np.unpackbits(np.frombuffer(data[:length], dtype=np.uint8), bitorder="little")[:num_blocks] == 1
        halves = np.frombuffer(data[length:], dtype="<u2").astype(np.uint32)
        means[there] = (halves << 16).view(np.float32)
    return torch.from_numpy(means)
