from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.allocation.waterfill import Ladder, best_rates, expected_error, fill
from fedcomp.quantizers import codebook

DISTORTION = codebook.DISTORTION
LADDER = Ladder(np.arange(9.0), np.array(list(DISTORTION.values())))
ENERGIES = st.lists(st.floats(1e-6, 1e6), min_size=2, max_size=6)


def error(
    energies: np.ndarray[tuple[int], np.dtype[np.float64]], rates: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> float:
    return expected_error(energies, rates, LADDER, least=np.full(len(rates), 1e-4))


@given(ENERGIES, st.floats(0.05, 6))
def test_no_small_exchange_of_bits_is_better(values: list[float], bits: float) -> None:
    energies, sizes = np.array(values), np.linspace(1000.0, 3000.0, len(values))
    rates = fill(energies, sizes, bits * sizes.sum(), LADDER)
    assert float((sizes * rates).sum()) <= bits * sizes.sum() * (1 + 1e-9)
    best = error(energies, rates)
    for giver in range(len(values)):
        for taker in range(len(values)):
            moved = rates.copy()
            moved[giver] -= 0.01
            moved[taker] += 0.01 * sizes[giver] / sizes[taker]
            if giver != taker and moved[giver] >= 1e-3 and moved[taker] <= 8:
                assert error(energies, moved) >= best * (1 - 1e-6)


def test_equal_pools_share_alike_and_all_is_spent() -> None:
    rates = fill(np.array([5.0, 5.0]), np.array([100.0, 100.0]), 300, LADDER)
    assert rates == pytest.approx([1.5, 1.5], abs=1e-6)


def test_a_pool_without_energy_gets_nothing() -> None:
    rates = fill(np.array([1.0, 0.0]), np.array([100.0, 100.0]), 200, LADDER)
    assert rates == pytest.approx([2, 0], abs=1e-6)


def test_more_than_eight_bits_are_never_spent() -> None:
    assert fill(np.array([1.0]), np.array([10.0]), 1e9, LADDER).tolist() == [8]


def test_a_cost_of_ones_own_is_kept() -> None:
    sizes = np.array([1000.0, 3000.0])
    rates = fill(np.array([9.0, 1.0]), sizes, 500, LADDER, cost=lambda rates: float((rates * sizes).sum()) / 8)
    assert 490 < float((rates * sizes).sum()) / 8 <= 500


def test_the_kept_share_is_linear_between_whole_rates() -> None:
    shares = LADDER.kept_share(np.array([0, 0.5, 1, 1.5, 2]))
    assert shares[1] == pytest.approx(shares[2] / 2)
    assert shares[3] == pytest.approx((shares[2] + shares[4]) / 2)
    assert shares[2] == pytest.approx(1 - DISTORTION[1])


def test_below_one_bit_rates_go_with_the_root_of_the_energy() -> None:
    rates = best_rates(np.array([4.0, 1.0]), np.array([1.0, 1.0]), 50.0, LADDER)
    assert 0 < rates[0] < 1
    assert rates[0] == pytest.approx(2 * rates[1])
