"""Golomb–Rice codes of small non-negative integers: a quotient in unary and k low bits, within some 4 % of the entropy.

Rice, Plaunt, "Adaptive variable-length coding for efficient compression of spacecraft television data", IEEE Trans.
Commun. Technol. 19, 1971. All quotients are stored before all low bits, so that coding works on whole arrays.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MAX_K = 15


def best_k(values: NDArray[np.int64]) -> int:
    """Return the number of low bits with the shortest code."""
    lengths = [int((values >> k).sum()) + k * len(values) for k in range(MAX_K + 1)]
    return int(np.argmin(lengths))


def encoded_bits(values: NDArray[np.int64], k: int) -> int:
    """Return the bits of ``encode``'s result before padding."""
    return int((values >> k).sum()) + (1 + k) * len(values)


def encode(values: NDArray[np.int64], k: int) -> bytes:
    """Map non-negative integers to bytes."""
    quotients = values >> k
    unary = np.zeros(int(quotients.sum()) + len(values), dtype=np.uint8)
    unary[np.cumsum(quotients) + np.arange(len(values))] = 1
    low = (values[:, None] >> np.arange(k) & 1).astype(np.uint8)
    return np.packbits(np.concatenate([unary, low.reshape(-1)]), bitorder="little").tobytes()


def decode(data: memoryview | bytes, count: int, k: int) -> NDArray[np.int64] | None:
    """Undo ``encode`` for ``count`` integers; None when the bytes are not what it could have written."""
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
    if count * (1 + k) > bits.size:
        return None
    if count == 0:
        return np.zeros(0, dtype=np.int64) if bits.size == 0 else None
    ends = np.flatnonzero(bits)[:count]
    if len(ends) < count:
        return None
    used = int(ends[-1]) + 1
    rest = bits[used + count * k :]
    if used + count * k > bits.size or rest.size > 7 or rest.any():
        return None
    low = bits[used : used + count * k].reshape(count, k).astype(np.int64)
    values: NDArray[np.int64] = (np.diff(ends, prepend=-1) - 1 << k) + (low << np.arange(k)).sum(axis=1)
    return values
