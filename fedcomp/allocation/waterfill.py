"""Reverse water-filling: the rates at which pools of given energies lose least in all.

A quantizer at rate r keeps the share c(r) of a rotated block's energy, linear between whole rates since there some
coordinates get one bit more; an unbiased estimate then errs by e·(1/c − 1). Each pool's best rate at a price λ a bit
has a closed form: within a piece of slope g, the derivative −e·g/c² equals −λ·n where c = √(e·g/(λ·n)).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def kept_share(rates: Floats, distortion: Mapping[int, float]) -> Floats:
    """Return c(r), the share of the energy that is kept at these rates."""
    most = max(distortion)
    shares = np.array([1 - distortion[bits] for bits in range(most + 1)])
    kept: Floats = np.interp(rates, np.arange(most + 1), shares)
    return kept


def best_rates(energies: Floats, sizes: Floats, price: float, distortion: Mapping[int, float]) -> Floats:
    """Return the rate of each pool at which one more bit is worth ``price``."""
    rates = np.zeros(len(energies))
    density = energies / sizes / price
    for bits in range(max(distortion)):
        low, high = 1 - distortion[bits], 1 - distortion[bits + 1]
        share = np.sqrt(density * (high - low))
        inside = np.clip((share - low) / (high - low), 0, 1)
        rates = np.where(share > low, bits + inside, rates)
    return rates


def fill(
    energies: Floats,
    sizes: Floats,
    budget: float,
    distortion: Mapping[int, float],
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
        rates = best_rates(energies, sizes, price, distortion)
        if (cost(rates) if cost else float((sizes * rates).sum())) > budget:
            low = price
        else:
            high = price
    return best_rates(energies, sizes, high, distortion)


def expected_error(energies: Floats, rates: Floats, distortion: Mapping[int, float], *, least: Floats) -> float:
    """Return Σ e·(1/c − 1); at a rate below ``least`` a pool has that one."""
    return float((energies * (1 / kept_share(np.maximum(rates, least), distortion) - 1)).sum())


def _price_range(energies: Floats, sizes: Floats) -> tuple[float, float]:
    density = energies / sizes
    positive = density[density > 0]
    return (float(positive.min()) * 1e-8, float(positive.max()) * 1e3) if len(positive) else (1e-8, 1.0)
