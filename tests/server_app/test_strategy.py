from __future__ import annotations

import pytest
import torch

from fedcomp.errors import ConfigError
from fedcomp.run_config import RunConfig
from server_app.strategy import ServerOptimizer, build_strategy
from tests.support.runs import identify

START = torch.tensor([1.0, -2.0, 0.0])
UPDATES = [torch.tensor([0.5, 0.25, -1.0]), torch.tensor([-0.125, 0.5, 0.25]), torch.tensor([1.0, 1.0, 1.0])]


def run(**changes: str | float) -> list[torch.Tensor]:
    identify()
    optimizer = ServerOptimizer(build_strategy(RunConfig(**changes)))  # type: ignore[arg-type]
    models = [START]
    for index, update in enumerate(UPDATES, start=1):
        models.append(optimizer.step(models[-1], update, weight=7.0, round_index=index))
    return models[1:]


def test_fedavg_adds_the_mean() -> None:
    expected = START
    for model, update in zip(run(strategy="fedavg"), UPDATES, strict=True):
        expected = expected + update
        torch.testing.assert_close(model, expected)


def test_fedavgm_is_momentum_on_the_mean() -> None:
    # Hsu, Qi, Brown 2019: v ← β·v + Δ, x ← x + η·v.
    expected, velocity = START, torch.zeros(3)
    found = run(strategy="fedavgm", server_learning_rate=0.5, server_momentum=0.9)
    for model, update in zip(found, UPDATES, strict=True):
        velocity = 0.9 * velocity + update
        expected = expected + 0.5 * velocity
        torch.testing.assert_close(model, expected)


def test_fedyogi_is_the_papers_formula() -> None:
    # Reddi et al. 2021, algorithm 2: m ← β1·m + (1−β1)Δ, v ← v − (1−β2)Δ²·sign(v − Δ²), x ← x + η·m/(√v + τ).
    expected, m, v = START, torch.zeros(3), torch.zeros(3)
    for model, update in zip(run(strategy="fedyogi", server_learning_rate=0.1), UPDATES, strict=True):
        m = 0.9 * m + 0.1 * update
        v = v - 0.01 * update**2 * torch.sign(v - update**2)
        expected = expected + 0.1 * m / (v.sqrt() + 1e-3)
        torch.testing.assert_close(model, expected, rtol=1e-5, atol=1e-6)


def test_fedadam_moves_every_coordinate_along_the_mean() -> None:
    first = run(strategy="fedadam", server_learning_rate=0.1)[0]
    assert torch.equal(torch.sign(first - START), torch.sign(UPDATES[0]))


def test_the_model_given_is_not_changed() -> None:
    run(strategy="fedadam", server_learning_rate=0.1)
    assert START.tolist() == [1.0, -2.0, 0.0]


def test_fedavg_refuses_a_rate_it_would_ignore() -> None:
    with pytest.raises(ConfigError, match=r"server-learning-rate is 0\.5 with strategy fedavg; allowed: 1\.0"):
        build_strategy(RunConfig(strategy="fedavg", server_learning_rate=0.5))
