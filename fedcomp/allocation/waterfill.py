"""Reverse water-filling: the rates at which pools of given energies lose least in all.

A code keeps the share c(r) = 1 − D(r) of a rotated block's energy, linear between the rates of its ladder since there
some coordinates get the higher one; an unbiased estimate then errs by e·(1/c − 1). Each pool's best rate at a price λ a
bit has a closed form: within a piece of slope g, the derivative −e·g/c² equals −λ·n where c = √(e·g/(λ·n)).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Ladder:
    """The rates of a code, increasing from 0, and the share of the energy that each loses, falling from 1 ever less."""

    rates: Floats
    distortions: Floats

    @cached_property
    def pieces(self) -> tuple[Floats, Floats, Floats]:
        """Length of each piece between two rates, what it adds to the share that is kept, and that share before it."""
        kept = 1 - self.distortions
        return np.diff(self.rates), np.diff(kept), kept[:-1]

    def kept_share(self, rates: Floats) -> Floats:
        """Return c(r), the share of the energy that is kept at these rates."""
        kept: Floats = np.interp(rates, self.rates, 1 - self.distortions)
        return kept


def best_rates(energies: Floats, sizes: Floats, price: float, ladder: Ladder) -> Floats:
    """Return the rate of each pool at which one more bit is worth ``price``."""
    lengths, gains, before = ladder.pieces
    # Slopes fall along the ladder, so that a piece is begun only when those before it are full: rates add up.
    share = np.sqrt((energies / sizes / price)[:, None] * (gains / lengths))
    rates: Floats = (((share - before) / gains).clip(0, 1) * lengths).sum(axis=1)
    return rates


def fill(
    energies: Floats,
    sizes: Floats,
    budget: float,
    ladder: Ladder,
    *,
    cost: Callable[[Floats], float] | None = None,
    steps: int = 48,
) -> Floats:
    """Return the best rates that cost at most ``budget``, or no bits at all where even those cost more.

    Parameters
    ----------
    energies, sizes
        Squared norm and number of coordinates of each pool.
    cost
        What rates cost, in the budget's unit; bits, when not given.
    steps
        How often the price is halved in; 24 find it to a thousandth.
    """
    low, high = _price_range(energies, sizes)
    for _ in range(steps):
        price = (low * high) ** 0.5
        rates = best_rates(energies, sizes, price, ladder)
        if (cost(rates) if cost else float((sizes * rates).sum())) > budget:
            low = price
        else:
            high = price
    return best_rates(energies, sizes, high, ladder)


def expected_error(energies: Floats, rates: Floats, ladder: Ladder, *, least: Floats) -> float:
    """Return Σ e·(1/c − 1); at a rate below ``least`` a pool has that one."""
    return float((energies * (1 / ladder.kept_share(np.maximum(rates, least)) - 1)).sum())


def _price_range(energies: Floats, sizes: Floats) -> tuple[float, float]:
    density = energies / sizes
    positive = density[density > 0]
    return (float(positive.min()) * 1e-8, float(positive.max()) * 1e3) if len(positive) else (1e-8, 1.0)
