from __future__ import annotations

from typing import Any

import pytest
import torch

from fedcomp.errors import ConfigError
from server_app.strategy import FLOWER_STRATEGIES, ServerOptimizer, flower_strategy
from tests.support.runs import identify

START = torch.tensor([1.0, -2.0, 0.0])
UPDATES = [torch.tensor([0.5, 0.25, -1.0]), torch.tensor([-0.125, 0.5, 0.25]), torch.tensor([1.0, 1.0, 1.0])]
RATES = [0.1, 0.03, 0.2]


def run(*, strategy: str, server_learning_rate: float = 1.0, server_momentum: float = 0.9) -> list[torch.Tensor]:
    flower = flower_strategy(strategy, learning_rate=server_learning_rate, momentum=server_momentum)
    return steps(ServerOptimizer(flower, learning_rate=server_learning_rate))


def steps(optimizer: ServerOptimizer, *, rates: list[float] | None = None) -> list[torch.Tensor]:
    identify()
    models = [START]
    for index, update in enumerate(UPDATES, start=1):
        options = {"learning_rate": rates[index - 1]} if rates else {}
        models.append(optimizer.step(models[-1], update, weight=7.0, round_index=index, **options))
    return models[1:]


def of(name: str, **options: Any) -> ServerOptimizer:
    rate = options.pop("learning_rate", 0.1)
    return ServerOptimizer(flower_strategy(name, learning_rate=rate, **options), learning_rate=rate)


def test_fedavg_adds_the_mean() -> None:
    expected = START
    for model, update in zip(run(strategy="fedavg"), UPDATES, strict=True):
        expected = expected + update
        torch.testing.assert_close(model, expected)


def test_fedavg_with_a_rate_adds_that_much_of_the_mean() -> None:
    expected = START
    for model, update in zip(steps(of("fedavg", learning_rate=0.5)), UPDATES, strict=True):
        expected = expected + 0.5 * update
        torch.testing.assert_close(model, expected)
    expected = START
    for model, update, rate in zip(steps(of("fedavg"), rates=RATES), UPDATES, RATES, strict=True):
        expected = expected + rate * update
        torch.testing.assert_close(model, expected)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fedavgm_is_momentum_on_the_mean(momentum: float) -> None:
    # Hsu, Qi, Brown 2019: v ← β·v + Δ, x ← x + η·v. The rate is outside the momentum.
    for rate in (0.5, 1.0):
        expected, velocity = START, torch.zeros(3)
        found = run(strategy="fedavgm", server_learning_rate=rate, server_momentum=momentum)
        for model, update in zip(found, UPDATES, strict=True):
            velocity = momentum * velocity + update
            expected = expected + rate * velocity
            torch.testing.assert_close(model, expected)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_fedavgm_takes_a_rate_each_step(momentum: float) -> None:
    # It begins with a rate of 1, at which Flower's takes itself for FedAvg when there is no momentum.
    expected, velocity = START, torch.zeros(3)
    optimizer = of("fedavgm", learning_rate=1.0, momentum=momentum)
    rates = [1.0, 0.03, 0.2]
    for model, update, rate in zip(steps(optimizer, rates=rates), UPDATES, rates, strict=True):
        velocity = momentum * velocity + update
        expected = expected + rate * velocity
        torch.testing.assert_close(model, expected)


@pytest.mark.parametrize(
    ("beta_1", "beta_2", "tau", "rates"),
    [(0.9, 0.99, 1e-3, None), (0.5, 0.9, 0.1, None), (0.9, 0.99, 1e-3, RATES)],
)
@pytest.mark.parametrize("name", ["fedadagrad", "fedadam", "fedyogi"])
def test_reddis_strategies_are_the_papers_formulas(
    name: str, beta_1: float, beta_2: float, tau: float, rates: list[float] | None
) -> None:
    # Reddi et al. 2021, algorithm 2, with Flower's v of 0 at the start and its correction of FedAdam's rate.
    expected, m, v = START, torch.zeros(3), torch.zeros(3)
    found = steps(of(name, beta_1=beta_1, beta_2=beta_2, tau=tau), rates=rates)
    for index, (model, update) in enumerate(zip(found, UPDATES, strict=True)):
        rate = rates[index] if rates else 0.1
        m = update if name == "fedadagrad" else beta_1 * m + (1 - beta_1) * update
        if name == "fedadagrad":
            v = v + update**2
        elif name == "fedyogi":
            v = v - (1 - beta_2) * update**2 * torch.sign(v - update**2)
        else:
            v = beta_2 * v + (1 - beta_2) * update**2
            rate *= (1 - beta_2 ** (index + 2)) ** 0.5 / (1 - beta_1 ** (index + 2))
        expected = expected + rate * m / (v.sqrt() + tau)
        torch.testing.assert_close(model, expected, rtol=1e-5, atol=1e-6)


def test_the_run_config_means_the_papers_betas_and_tau() -> None:
    for name in ("fedadam", "fedyogi"):
        found = run(strategy=name, server_learning_rate=0.1)
        same = steps(of(name, beta_1=0.9, beta_2=0.99, tau=1e-3))
        assert all(torch.equal(one, two) for one, two in zip(found, same, strict=True))


def test_fedadam_moves_every_coordinate_along_the_mean() -> None:
    first = run(strategy="fedadam", server_learning_rate=0.1)[0]
    assert torch.equal(torch.sign(first - START), torch.sign(UPDATES[0]))


@pytest.mark.parametrize("name", FLOWER_STRATEGIES)
def test_a_rate_of_one_step_is_forgotten_at_the_next(name: str) -> None:
    one, other = of(name), of(name)
    steps(one, rates=[5.0, 5.0, 5.0])
    steps(other, rates=[0.1, 0.1, 0.1])
    # Moments do not depend on rates.
    found = [x.step(START, UPDATES[0], weight=1.0, round_index=4) for x in (one, other)]
    if name != "fedavgm":
        assert torch.equal(found[0], found[1])
    else:  # its moments are differences of models, and so rounded
        torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", FLOWER_STRATEGIES)
def test_a_strategy_knows_its_own_rate(name: str) -> None:
    given = ServerOptimizer(flower_strategy(name, learning_rate=0.1), learning_rate=0.1)
    own = ServerOptimizer(flower_strategy(name, learning_rate=1.0 if name == "fedavg" else 0.1))
    rate = [1.0] * 3 if name == "fedavg" else None
    assert all(torch.equal(one, two) for one, two in zip(steps(given, rates=rate), steps(own), strict=True))


@pytest.mark.parametrize("name", FLOWER_STRATEGIES)
@pytest.mark.parametrize("skipped", [0, 40])
def test_after_a_reset_it_is_as_new_whatever_the_round(name: str, skipped: int) -> None:
    identify()
    optimizer, new = of(name), of(name)
    steps(optimizer)
    optimizer.reset()
    assert optimizer.state() == {}
    one = two = START
    for index, update in enumerate(UPDATES, start=1):
        one = optimizer.step(one, update, weight=7.0, round_index=3 + skipped + index)
        two = new.step(two, update, weight=7.0, round_index=index)
        assert torch.equal(one, two)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("fedavg", set()),
        ("fedavgm", {"momentum_vector", "steps"}),
        ("fedadagrad", {"m_t", "v_t", "steps"}),
        ("fedadam", {"m_t", "v_t", "steps"}),
        ("fedyogi", {"m_t", "v_t", "steps"}),
    ],
)
def test_the_state_is_named_in_checkpoints(name: str, keys: set[str]) -> None:
    optimizer = of(name)
    assert optimizer.state() == {}
    steps(optimizer)
    state = optimizer.state()
    assert state.keys() == keys
    assert not keys or int(state["steps"]) == 3


def test_the_model_given_is_not_changed() -> None:
    run(strategy="fedadam", server_learning_rate=0.1)
    assert START.tolist() == [1.0, -2.0, 0.0]


def test_fedavg_takes_its_rate_of_the_mean() -> None:
    expected = START
    for model, update in zip(run(strategy="fedavg", server_learning_rate=0.5), UPDATES, strict=True):
        expected = expected + 0.5 * update
        torch.testing.assert_close(model, expected)


def test_an_unknown_strategy_is_named() -> None:
    with pytest.raises(ConfigError, match="strategy is 'fedsgd'; allowed: fedavg, fedavgm, fedadagrad, fedadam, fedy"):
        flower_strategy("fedsgd", learning_rate=1.0)


def test_a_failed_step_names_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    identify()
    strategy = flower_strategy("fedavg", learning_rate=1.0)
    monkeypatch.setattr(strategy, "aggregate_train", lambda *_: (None, None))
    with pytest.raises(RuntimeError, match=r"round 9: FedAvg returned no arrays for a reply of weight 7\.0"):
        ServerOptimizer(strategy).step(START, UPDATES[0], weight=7.0, round_index=9)
