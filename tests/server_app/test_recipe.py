from __future__ import annotations

import pytest

from fedcomp.errors import ConfigError
from fedcomp.run_config import RunConfig
from server_app.recipe import Recipe
from tests.support.runs import requests_of, run_in_process, settings


def recipe(**changes: str | float | int) -> Recipe:
    return Recipe.of(RunConfig(num_server_rounds=10, **changes))  # type: ignore[arg-type]


def test_without_schedules_all_stays_as_set() -> None:
    item = recipe(learning_rate=0.25, batch_size=7, clients_per_round=3, server_learning_rate=0.5)
    for index in (1, 5, 10):
        assert (item.learning_rate(index), item.batch_size(index), item.cohort_size(index)) == (0.25, 7, 3)
        assert item.server_rate(index, cohort=99) == 0.5
        assert not item.restarts(index)


def test_rates_fall_and_sizes_grow_as_scheduled() -> None:
    item = recipe(
        learning_rate=0.5,
        learning_rate_schedule="linear:end=0.1",
        batch_size=8,
        batch_schedule="step:every=5,factor=2",
        clients_per_round=4,
        cohort_schedule="linear:end=4",
        server_schedule="cosine:restarts=1,warmup=2",
        server_learning_rate=0.1,
    )
    assert item.learning_rate(1) == 0.5
    assert item.learning_rate(10) == pytest.approx(0.05)
    assert [item.batch_size(index) for index in (1, 5, 6, 10)] == [8, 8, 16, 16]
    assert [item.cohort_size(index) for index in (1, 4, 10)] == [4, 8, 16]
    assert item.server_rate(1, cohort=4) == pytest.approx(0.05)
    assert item.server_rate(2, cohort=4) == pytest.approx(0.1)
    assert sum(item.restarts(index) for index in range(1, 11)) == 1


@pytest.mark.parametrize(("rule", "expected"), [("none", 0.1), ("linear", 0.4), ("sqrt", 0.2)])
def test_the_servers_rate_scales_with_the_cohort(rule: str, expected: float) -> None:
    item = recipe(server_learning_rate=0.1, server_rate_scaling=rule, server_rate_base=5)
    assert item.server_rate(1, cohort=20) == pytest.approx(expected)
    assert item.server_rate(1, cohort=0) > 0


def test_all_clients_cannot_grow() -> None:
    assert recipe().cohort_size(5) == 0
    with pytest.raises(ConfigError, match="cohort-schedule is 'linear:end=2', which needs mode 'sync' and"):
        RunConfig.from_mapping({"cohort-schedule": "linear:end=2"})


@pytest.mark.parametrize(
    "key", ["server-schedule", "learning-rate-schedule", "local-schedule", "batch-schedule", "cohort-schedule"]
)
def test_a_wrong_schedule_is_named(key: str) -> None:
    config = RunConfig.from_mapping({key: "triangle", "clients-per-round": 2})
    with pytest.raises(ConfigError, match=f"{key}.*triangle"):
        Recipe.of(config)


def test_clients_are_told_their_rate_and_batch_and_cohorts_grow() -> None:
    config = settings(
        num_server_rounds=4,
        clients_per_round=2,
        cohort_schedule="step:every=2,factor=2",
        learning_rate=0.1,
        learning_rate_schedule="step:every=2,factor=0.5",
        batch_size=10,
        batch_schedule="step:every=2,factor=2",
    )
    run, grid = run_in_process(config, clients=5)
    assert [item.clients for item in run.rounds] == [2, 2, 4, 4]
    told = {item.round_index: (item.learning_rate, item.batch_size) for item in requests_of(grid)}
    assert told == {1: (0.1, 10), 2: (0.1, 10), 3: (0.05, 20), 4: (0.05, 20)}


@pytest.mark.parametrize("strategy", ["fedavg", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedlamb", "fedlars"])
def test_every_server_optimizer_learns_with_a_schedule_that_restarts(strategy: str) -> None:
    rate = {"fedavg": 1.0, "fedavgm": 1.0, "fedlars": 1.0}.get(strategy, 0.05)
    config = settings(
        strategy=strategy,
        server_learning_rate=rate,
        trust=0.02,
        server_schedule="cosine:restarts=1,end=0.1,warmup=2",
        num_server_rounds=8,
    )
    run, _ = run_in_process(config)
    assert run.best_accuracy is not None
    assert run.best_accuracy > 0.9
    assert run.rounds[-1].loss is not None
    assert run.rounds[0].loss is not None
    assert run.rounds[-1].loss < run.rounds[0].loss
