"""Elias's recursive (omega) code of positive integers: one bit for 1, three for 2 and 3, some 2·log2 n for larger n.

Elias, "Universal codeword sets and representations of the integers", IEEE Trans. Inf. Theory 21, 1975. A codeword is a
chain of groups, each as many bits longer as the one before it says, and each led by a 1 that says "there is one more".
All first groups are stored first, then all second groups, …, so that coding works on whole arrays; no bit is added.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.uint8]
MAX_BITS = 48
"""Integers are below 2^48."""


def lengths(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the bits of each codeword."""
    total = np.ones(values.shape, dtype=np.int64)
    rest = values
    while (rest > 1).any():
        log = _floor_log2(rest)
        total += np.where(rest > 1, log + 1, 0)
        rest = np.where(rest > 1, log, 1)
    return total


def encode(values: NDArray[np.int64]) -> Bits:
    """Map integers from 1 to 2^48 − 1 to an array of bits, each 0 or 1."""
    chain = [values]
    while (chain[-1] > 1).any():
        chain.append(np.where(chain[-1] > 1, _floor_log2(chain[-1]), 1))
    groups = np.stack(chain[::-1])
    # A chain that is shorter than the longest begins with ones, which stand for nothing: the first group is the one
    # after the last leading 1.
    first = (groups == 1).sum(axis=0)
    parts = []
    active = np.arange(values.size)
    before = np.ones(values.size, dtype=np.int64)
    while active.size:
        flags = first[active] < len(groups)
        parts.append(flags.astype(np.uint8))
        active = active[flags]
        value = groups[first[active], active]
        parts.append(_to_bits(value, before[flags]))
        before = value
        first[active] += 1
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.uint8)


def decode(bits: Bits, count: int) -> tuple[NDArray[np.int64], int] | None:
    """Read ``count`` integers; return them and the bits used, or None when the bits end too early or make no sense.

    Nothing larger than the bits is allocated.
    """
    if count > bits.size:
        return None
    values = np.ones(count, dtype=np.int64)
    active = np.arange(count)
    used = 0
    while active.size:
        if used + active.size > bits.size:
            return None
        flags = bits[used : used + active.size] == 1
        used += active.size
        active = active[flags]
        widths = values[active]
        total = int(widths.sum()) if widths.size and widths.max() < MAX_BITS else 0
        if widths.size and (total == 0 or used + total > bits.size):
            return None
        values[active] = _from_bits(bits[used : used + total], widths)
        used += total
    return values, used


def _to_bits(values: NDArray[np.int64], widths: NDArray[np.int64]) -> Bits:
    """Return the lowest ``widths`` bits of each value, least significant first, one after the other."""
    places = np.arange(int(widths.sum())) - np.repeat(np.cumsum(widths) - widths, widths)
    return (np.repeat(values, widths) >> places & 1).astype(np.uint8)


def _from_bits(bits: Bits, widths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Undo ``_to_bits`` and put the leading 1 before each value; widths are at least 1."""
    if not widths.size:
        return np.zeros(0, dtype=np.int64)
    starts = np.cumsum(widths) - widths
    places = np.arange(bits.size) - np.repeat(starts, widths)
    values: NDArray[np.int64] = np.add.reduceat(bits.astype(np.int64) << places, starts) + (np.int64(1) << widths)
    return values


def _floor_log2(values: NDArray[np.int64]) -> NDArray[np.int64]:
    # Exact: integers below 2^53 are float64 numbers.
    return np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
