"""Elias–Fano coding of increasing integers: k places among n in about k·(2 + log2(n/k)) bits, near the least possible.

Elias, "Efficient storage and retrieval by content and address of static files", J. ACM 21, 1974. Each place is cut into
low bits, sent as they are, and high bits, sent as gaps in unary.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def low_bits(count: int, universe: int) -> int:
    """Return how many bits of each place are sent as they are."""
    return max(0, (universe // count).bit_length() - 1) if count else 0


def encoded_bytes(count: int, universe: int) -> int:
    """Return the length of ``encode``'s result."""
    bits = low_bits(count, universe)
    return -(-count * bits // 8) + (-(-(count + (universe >> bits)) // 8) if count else 0)


def encode(places: NDArray[np.int64], universe: int) -> bytes:
    """Map strictly increasing places in [0, universe) to bytes."""
    count = len(places)
    if not count:
        return b""
    bits = low_bits(count, universe)
    low = (places[:, None] >> np.arange(bits) & 1).astype(np.uint8)
    high = np.zeros(count + (universe >> bits), dtype=np.uint8)
    high[(places >> bits) + np.arange(count)] = 1
    return np.packbits(low.reshape(-1), bitorder="little").tobytes() + np.packbits(high, bitorder="little").tobytes()


def decode(data: memoryview | bytes, count: int, universe: int) -> NDArray[np.int64] | None:
    """Undo ``encode`` for data of ``encoded_bytes`` length; None when they are no strictly increasing places."""
    if not count:
        return np.zeros(0, dtype=np.int64)
    bits = low_bits(count, universe)
    low_length = -(-count * bits // 8)
    raw = np.frombuffer(data, dtype=np.uint8)
    low = np.unpackbits(raw[:low_length], count=count * bits, bitorder="little").reshape(count, bits)
    ones = np.flatnonzero(np.unpackbits(raw[low_length:], bitorder="little"))
    if len(ones) != count:
        return None
    places = ((ones - np.arange(count)) << bits) + (low.astype(np.int64) << np.arange(bits)).sum(axis=1)
    return places if places[-1] < universe and (np.diff(places) > 0).all() else None
