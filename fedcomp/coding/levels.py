"""Signed levels, most of them small or zero, in Elias codes as QSGD has them.

Alistarh et al., "QSGD: Communication-efficient SGD via gradient quantization and encoding", NeurIPS 2017 (arXiv
1610.02132), §3.2 and appendix A: either every level has its codeword (dense), or only the non-zero ones have, after the
codeword of the gap from the last (sparse). A sign is a bit.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.coding import elias

DENSE, SPARSE = 0, 1


def encode(levels: NDArray[np.int64]) -> tuple[int, int, bytes]:
    """Map signed levels to (DENSE or SPARSE, number of non-zeros, bytes), whichever is shorter."""
    places = np.flatnonzero(levels)
    magnitudes = np.abs(levels[places])
    signs = (levels[places] < 0).astype(np.uint8)
    gaps = np.diff(places, prepend=-1)
    every = np.abs(levels) + 1
    if elias.lengths(every).sum() <= elias.lengths(gaps).sum() + elias.lengths(magnitudes).sum():
        parts = [elias.encode(every), signs]
        mode = DENSE
    else:
        parts = [elias.encode(gaps), elias.encode(magnitudes), signs]
        mode = SPARSE
    return mode, len(places), np.packbits(np.concatenate(parts), bitorder="little").tobytes()


def decode(data: memoryview, count: int, *, mode: int, nonzeros: int) -> NDArray[np.int64] | None:
    """Undo ``encode`` for ``count`` levels; None when the bytes are not what it could have written.

    The caller sees to it that ``count`` levels may be allocated.
    """
    bits = np.unpackbits(np.frombuffer(data, dtype=np.uint8), bitorder="little")
    read = _decode_dense(bits, count) if mode == DENSE else _decode_sparse(bits, count, nonzeros)
    if read is None:
        return None
    levels, used = read
    places = np.flatnonzero(levels)
    rest = bits[used + places.size :]
    if places.size != nonzeros or used + places.size > bits.size or rest.size > 7 or rest.any():
        return None
    negative = bits[used : used + places.size] == 1
    levels[places[negative]] *= -1
    return levels


def _decode_dense(bits: elias.Bits, count: int) -> tuple[NDArray[np.int64], int] | None:
    read = elias.decode(bits, count)
    return None if read is None else (read[0] - 1, read[1])


def _decode_sparse(bits: elias.Bits, count: int, nonzeros: int) -> tuple[NDArray[np.int64], int] | None:
    gaps = elias.decode(bits, nonzeros)
    if gaps is None:
        return None
    magnitudes = elias.decode(bits[gaps[1] :], nonzeros)
    # Hostile gaps might make an integer sum wrap around; one in floating point cannot.
    if magnitudes is None or float(gaps[0].sum(dtype=np.float64)) > count:
        return None
    levels = np.zeros(count, dtype=np.int64)
    levels[np.cumsum(gaps[0]) - 1] = magnitudes[0]
    return levels, gaps[1] + magnitudes[1]
