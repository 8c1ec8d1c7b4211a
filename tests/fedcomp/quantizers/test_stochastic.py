from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.quantizers.stochastic import round_stochastically


@given(st.floats(-200, 200), st.integers(0, 2**64 - 1))
def test_a_number_goes_to_a_neighbour(value: float, seed: int) -> None:
    x = torch.tensor([value])
    rounded = round_stochastically(x, seed=seed)
    assert float(rounded) in (float(x.floor()), float(x.floor()) + 1)


def test_whole_numbers_stay() -> None:
    x = torch.arange(-5.0, 6.0)
    assert all(torch.equal(round_stochastically(x, seed=seed), x) for seed in range(50))


def test_the_mean_is_the_number() -> None:
    # The mean of n = 2^18 roundings deviates by at most 0.5/512 = 0.001; 0.006 is six of those.
    for value in (0.1, -0.25, 3.7):
        rounded = round_stochastically(torch.full((2**18,), value), seed=4)
        assert abs(float(rounded.double().mean()) - value) < 0.006
