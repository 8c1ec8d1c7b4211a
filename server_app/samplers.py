"""Who takes part in a round: cohorts drawn uniformly, by number of examples or by how often a client replied."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedcomp.aggregation import MAX_WEIGHT
from fedcomp.errors import ConfigError
from fedcomp.seeds import Stream, permutation, words

SAMPLERS = ("uniform", "examples", "availability")

# A chance this near to one counts as one: then no rounding error can draw a client twice.
_CERTAIN = 1 - 1e-9


@dataclass(frozen=True)
class Candidate:
    """A client that could be asked.

    Attributes
    ----------
    name, client_id
        Its stable name, and the number by which clients are ordered.
    examples
        How many examples it says it has; None when it has not said.
    asked, replied
        In how many rounds it was asked, and how many of its replies came in time.
    """

    name: str
    client_id: int
    examples: float | None = None
    asked: int = 0
    replied: int = 0


def draw(kind: str, candidates: Sequence[Candidate], count: int, *, seed: int) -> list[tuple[Candidate, float]]:
    """Draw a cohort without replacement; each member comes with its relative chance, in the order of client ids.

    ``uniform``: every set of ``count`` is equally likely; all chances are 1.

    ``examples``: a client's chance of being drawn is in proportion to its examples, cut at certainty. The number
    returned is that chance over the mean chance of all candidates. Guarantee: with weights of examples over chance the
    weights of a cohort have the same sum in every draw, so the mean of the cohort's vectors is, over the draws, exactly
    the examples-weighted mean of all candidates, at every cohort size. That holds when all of the cohort are used and
    their weights come from the ``examples`` given here; where examples were unknown or have changed, or replies are
    missing, it holds approximately. Unknown (or impossible) numbers count as the mean of the known ones, 1 when none is
    known; numbers below 1 as 1. Whoever lies about examples is drawn more often, but gains no more than by the weight.

    ``availability``: in proportion to (replied+1)/(asked+2), Laplace's estimate of the reply rate. All chances are 1:
    the mean leans towards clients that reply, and dividing by the chance would take back what was wanted.

    Parameters
    ----------
    kind
        One of ``SAMPLERS``.
    candidates
        In any order; the result does not depend on it.
    count
        How many; 0, or as many as there are or more, takes all, with chance 1.
    seed
        Equal seeds draw equal cohorts.

    Raises
    ------
    ConfigError
        When ``kind`` is unknown or ``count`` is negative.

    Notes
    -----
    Unequal chances are drawn systematically from a random order (Madow, Ann. Math. Stat. 20, 1949; Hartley and Rao,
    Ann. Math. Stat. 33, 1962): clients lie on a line, each as long as its chance, and every whole step from a random
    start takes one. Drawing one after the other by weight has no such chances: they flatten as cohorts grow.
    """
    if kind not in SAMPLERS:
        raise ConfigError(f"sampler is {kind!r}; allowed: {', '.join(SAMPLERS)}")
    if count < 0:
        raise ConfigError(f"the cohort is of {count} clients; allowed: 0 for all, or more")
    ordered = sorted(candidates, key=lambda candidate: candidate.client_id)
    if count == 0 or count >= len(ordered):
        return [(candidate, 1.0) for candidate in ordered]
    if kind == "uniform":
        return [(ordered[place], 1.0) for place in sorted(permutation(seed, len(ordered))[:count])]
    weights = _sizes(ordered) if kind == "examples" else _reply_rates(ordered)
    chances = inclusion_chances(weights, count)
    places = sorted(_systematic(chances, count, seed=seed))
    mean = count / len(ordered)
    return [(ordered[place], float(chances[place]) / mean if kind == "examples" else 1.0) for place in places]


def inclusion_chances(weights: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    """Map positive weights to chances in proportion to them, at most 1, whose sum is ``count`` (below their number)."""
    certain = np.zeros(len(weights), dtype=bool)
    while True:
        chances = np.where(certain, 1.0, (count - certain.sum()) * (weights / weights[~certain].sum()))
        above = ~certain & (chances >= _CERTAIN)
        if not above.any():
            return chances
        certain |= above


def _systematic(chances: NDArray[np.float64], count: int, *, seed: int) -> list[int]:
    """Return ``count`` different places, each with its chance."""
    certain, free = np.flatnonzero(chances == 1.0), np.flatnonzero(chances < 1.0)
    free = free[permutation(seed, len(free))]
    high, low = (int(word) for word in words(seed, Stream.SAMPLING, 2))
    start = ((high << 21) | (low >> 11)) / 2**53
    ends = np.cumsum(chances[free])
    taken = np.searchsorted(ends, start + np.arange(count - len(certain)), side="right")
    # The last end is whole but for rounding; a step that falls beyond it belongs to the last client.
    return [int(place) for place in (*certain, *free[np.minimum(taken, len(free) - 1)])]


def _sizes(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    said = [candidate.examples for candidate in candidates]
    usable = [None if size is None or not _possible(size) else max(float(size), 1.0) for size in said]
    known = [size for size in usable if size is not None]
    typical = sum(known) / len(known) if known else 1.0
    return np.array([typical if size is None else size for size in usable])


def _possible(size: float) -> bool:
    return math.isfinite(size) and 0 <= size <= MAX_WEIGHT


def _reply_rates(candidates: Sequence[Candidate]) -> NDArray[np.float64]:
    return np.array([(candidate.replied + 1) / (candidate.asked + 2) for candidate in candidates])
