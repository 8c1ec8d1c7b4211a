from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fedcomp.errors import ConfigError
from fedcomp.optim.lamb import Lamb
from fedcomp.optim.lars import Lars
from server_app.optimizers import STRATEGIES, Optimizer, build_optimizer
from server_app.strategy import ServerOptimizer, flower_strategy
from tests.support.runs import identify

SHAPES = [(3, 4), (3,), ()]
DIM = 16
ROUNDS = 6


def new(name: str, **options: Any) -> Optimizer:
    identify()
    return build_optimizer(name, shapes=SHAPES, **{"learning_rate": 0.05} | options)


def play(optimizer: Optimizer, model: Tensor, first: int, last: int, *, rates: bool = False) -> list[Tensor]:
    """Return the models of rounds ``first`` to ``last``; in round 4 the moments are reset before the step."""
    models = []
    for index in range(first, last + 1):
        if index == 4:
            optimizer.reset()
        update = torch.randn(DIM, generator=torch.Generator().manual_seed(index))
        rate = 0.1 / index if rates else None
        model = optimizer.step(model, update, weight=3.0, round_index=index, learning_rate=rate)
        models.append(model)
    return models


def same(one: list[Tensor], two: list[Tensor]) -> bool:
    return len(one) == len(two) and all(torch.equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("split", range(ROUNDS + 1))
def test_a_resumed_run_goes_on_to_the_bit(name: str, split: int) -> None:
    start = torch.linspace(-1, 1, DIM)
    whole = play(new(name), start, 1, ROUNDS, rates=True)
    before = new(name)
    models = play(before, start, 1, split, rates=True)
    state = {key: value.clone() for key, value in before.state().items()}
    after = new(name)
    # Whatever it did before is of the past.
    after.step(-start, start, weight=1.0, round_index=1)
    after.restore(state)
    assert after.state().keys() == state.keys()
    assert same(models + play(after, (models or [start])[-1], split + 1, ROUNDS, rates=True), whole)


@settings(max_examples=15, deadline=None)
@given(rate=st.floats(0.001, 2), momentum=st.floats(0, 0.95), beta_2=st.floats(0.5, 0.999), seed=st.integers(0, 999))
@pytest.mark.parametrize("name", STRATEGIES)
def test_the_settings_reach_the_optimizer(name: str, rate: float, momentum: float, beta_2: float, seed: int) -> None:
    options = {"momentum": momentum, "beta_1": 0.8, "beta_2": beta_2, "tau": 0.01}
    expected: Optimizer
    if name == "fedlamb":
        expected = Lamb(SHAPES, learning_rate=rate, beta_1=0.8, beta_2=beta_2, tau=0.01, weight_decay=0.1)
    elif name == "fedlars":
        expected = Lars(SHAPES, learning_rate=rate, momentum=momentum, trust=0.02, weight_decay=0.1)
    else:
        expected = ServerOptimizer(flower_strategy(name, learning_rate=rate, **options), learning_rate=rate)
    start = torch.randn(DIM, generator=torch.Generator().manual_seed(seed))
    found = new(name, learning_rate=rate, trust=0.02, weight_decay=0.1, **options)
    assert same(play(found, start, 1, 3), play(expected, start, 1, 3))


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_rate_of_0_leaves_the_model_of_a_first_step(name: str) -> None:
    start = torch.linspace(-1, 1, DIM)
    found = new(name).step(start, torch.ones(DIM), weight=1.0, round_index=1, learning_rate=0.0)
    torch.testing.assert_close(found, start)


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_step_goes_along_the_mean_update(name: str) -> None:
    start = torch.linspace(-1, 1, DIM)
    update = torch.randn(DIM, generator=torch.Generator().manual_seed(7))
    assert torch.equal((new(name).step(start, update, weight=1.0, round_index=1) - start).sign(), update.sign())


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_is_remembered_can_be_a_checkpoint(name: str) -> None:
    optimizer = new(name)
    assert optimizer.state() == {}
    play(optimizer, torch.ones(DIM), 1, 2)
    state = optimizer.state()
    assert bool(state) is (name != "fedavg")
    # Float vectors of the model's dim, and a count.
    shapes = {(str(value.dtype), tuple(value.shape)) for value in state.values()}
    assert shapes <= {("torch.float32", (DIM,)), ("torch.int64", ())}


def test_an_unknown_name_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"strategy is 'adam'; allowed: fedavg, .*, fedyogi, fedlamb, fedlars"):
        new("adam")
