from __future__ import annotations

import pytest

from fedcomp.errors import ConfigError
from fedcomp.run_config import RunConfig
from fedcomp.sweeps import estimate as estimates
from fedcomp.sweeps.estimate import Estimate, Machine, TaskCost
from fedcomp.sweeps.measure import measure
from tests.support.commands import ROOT
from tests.support.runs import TINY
from tests.support.sweeps import cells, tiny_sweep

COST = TaskCost(
    data_label="clouds",
    dim=1000,
    examples=100.0,
    batch_seconds=0.1,
    load_seconds=0.5,
    test_seconds=2.0,
    encode_seconds={"identity": 1.0, "eden:bits=2": 2.0},
    memory_bytes=10**9,
    start_seconds=3.0,
)


def of(cores: int, memory: int | None) -> Estimate:
    return Estimate({"TinyTask": COST}, Machine(cores=cores, memory_bytes=memory, gpus=0))


def test_a_round_is_the_sum_of_its_parts() -> None:
    config = RunConfig(compressor="identity", batch_size=20, local_epochs=2, clients_per_round=3)
    assert COST.round_seconds(config, clients=10) == pytest.approx(3 * (0.5 + 2 * 5 * 0.1 + 1.0) + 2.0)
    everybody = RunConfig(compressor="identity", batch_size=20, local_epochs=2)
    assert COST.round_seconds(everybody, clients=10) == pytest.approx(10 * 2.5 + 2.0)


def test_time_is_shared_among_cores_and_never_less_than_the_longest_run() -> None:
    plain, eden = cells()
    one, other = (
        3.0 + 3 * COST.round_seconds(RunConfig.from_mapping(cell.settings), clients=3) for cell in (plain, eden)
    )
    both = [(plain, 0), (eden, 0)]
    assert of(4, None).seconds(both, parallel=1) == pytest.approx(one + other)
    assert of(4, None).seconds(both, parallel=2) == pytest.approx(max((one + other) / 2, other))
    assert of(1, None).seconds(both, parallel=2) == pytest.approx(one + other)
    # Two of three rounds are there.
    assert of(1, None).seconds([(plain, 2)], parallel=1) == pytest.approx(3.0 + (one - 3.0) / 3)


@pytest.mark.parametrize(
    ("cores", "memory", "expected"), [(4, None, 1), (4, 10**11, 4), (4, 3 * 10**9, 2), (4, 10**8, 1)]
)
def test_so_many_run_at_once_as_cores_and_memory_allow(cores: int, memory: int | None, expected: int) -> None:
    assert of(cores, memory).parallel() == expected


def test_a_task_is_measured() -> None:
    arms = {"plain": RunConfig(task=TINY, compressor="identity"), "eden": RunConfig(task=TINY, compressor="eden")}
    cost = measure(arms, clients=4, seed=1)
    assert (cost.dim, cost.examples, cost.data_label) == (442, 40.0, "two synthetic Gaussian clouds")
    assert set(cost.encode_seconds) == {"identity", "eden"}
    seconds = [cost.batch_seconds, cost.load_seconds, cost.test_seconds, *cost.encode_seconds.values()]
    assert all(0 < value < 10 for value in seconds)
    assert cost.memory_bytes > 10**8


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"server_schedule": "triangle"}, "arm b: server-schedule"),
        ({"client_bits": "a=x"}, "arm b: client-bits"),
        ({"compressor": "qsgd", "error_feedback": "on"}, "arm b: .*allowed with error feedback"),
    ],
)
def test_what_only_a_runs_start_would_find_wrong_is_found_too(wrong: dict[str, str], named: str) -> None:
    arms = {"a": RunConfig(task=TINY), "b": RunConfig(task=TINY, **wrong)}  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=named):
        measure(arms, clients=2, seed=1)


def test_what_is_wrong_is_said_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    with pytest.raises(ConfigError, match=r"task TinyTask, arm wrong: .*bits is 99"):
        estimates.estimate(tiny_sweep(arms={"plain": "identity", "wrong": "eden:bits=99"}))
    with pytest.raises(ConfigError, match=r"task emnist: .*nothing"):
        estimates.estimate(tiny_sweep(task="emnist:nothing=1"))
