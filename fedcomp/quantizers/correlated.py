"""Rounding noise of a cohort: each client's is uniform, and together they are spread evenly over [0, 1).

Suresh, Sun, Ro, Yu, "Correlated quantization for distributed mean estimation and optimization", ICML 2022 (arXiv
2203.04925), algorithm 1. One client's rounding up then makes the others' rounding down more likely, so that the errors
of similar coordinates cancel in the mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.seeds import Stream, words

MAX_CLIENTS = 4096
_GROUP = 1024
_BITS = 24
# Substreams of the rounding stream: 0 is what an independent client draws, the cohort's ranks come after it.
_FIRST_RANK = 1


def cohort_noise(seed: int, count: int, *, clients: int, rank: int) -> NDArray[np.float32]:
    """Return the noise of client ``rank`` of ``clients`` for ``count`` coordinates; multiples of 2^-24 in [0, 1).

    At each coordinate the clients' numbers lie one in each n-th of [0, 1), in a random order. The order is a random
    permutation a group of 1,024 coordinates, shifted by a random amount at each: a pair of clients is then in any two
    different n-ths with equal probability, as under a permutation of its own a coordinate, which would cost n words a
    coordinate. Squared errors depend on pairs only.

    Guarantee: uniform over the seed for each client alone, whatever the others do. Cost: 2 + clients/1024 words a
    coordinate.

    Parameters
    ----------
    seed
        The cohort's seed, the same for all its clients.
    clients, rank
        The cohort's size, at most 4,096, and this client's place in it, from 0.
    """
    keys = words(seed, Stream.PERMUTATION, -(-count // _GROUP) * clients).reshape(-1, clients)
    own = keys[:, rank, None]
    # The place of one's own key in the order of all; of equal keys the earlier rank's comes first.
    places = (keys < own).sum(axis=1) + (keys[:, :rank] == own).sum(axis=1)
    shifts = (words(seed, Stream.SAMPLING, count).astype(np.uint64) * np.uint64(clients)) >> np.uint64(32)
    cells = (np.repeat(places, _GROUP)[:count].astype(np.uint64) + shifts) % np.uint64(clients)
    within = words(seed, Stream.ROUNDING, count, substream=_FIRST_RANK + rank) >> np.uint32(32 - _BITS)
    fine = ((cells << np.uint64(_BITS)) + within) // np.uint64(clients)
    return fine.astype(np.float32) * np.float32(2**-_BITS)
