"""What is checked before Flower starts, in the process it is checked in."""

from __future__ import annotations

import sys

import pytest
import torch

from fedcomp.commands.preflight import Machine, preflight
from fedcomp.commands.trial import CUDA_CONTEXT, FLOWER, memory_of_one_client
from fedcomp.errors import ConfigError
from fedcomp.run_config import RunConfig

TASK = "tests.support.tiny_task:TinyTask"


@pytest.fixture(autouse=True)
def _tests_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ".")


def test_one_client_is_tried_out() -> None:
    machine = preflight({"task": TASK, "device": "cpu"}, clients=3)
    assert machine.gpus == ()
    assert machine.client_gpu == 0
    assert machine.host is not None
    # A process with torch takes some hundred megabytes whatever it trains.
    assert machine.client_host is not None
    assert 100_000_000 < machine.client_host - FLOWER < 2_000_000_000


def test_a_larger_model_takes_more() -> None:
    few, many = (
        preflight({"task": f"{TASK}:width={width}", "device": "cpu"}, clients=2).client_host
        for width in (10, 2_000_000)
    )
    assert few is not None
    assert many is not None
    # Weights, a copy of them from before, gradients and momentum: four vectors of 22 million floats; what else a
    # process takes varies by some megabytes.
    assert many - few > 0.95 * 4 * (4 * 11 * 2_000_000)


def test_settings_that_only_training_finds_wrong_are_refused() -> None:
    with pytest.raises(ConfigError, match="float16"):
        preflight({"task": TASK, "precision": "float16", "device": "cpu"}, clients=2)


def test_a_task_that_fails_for_the_first_client_limits_nothing() -> None:
    machine = preflight({"task": "tests.support.flaky_task:FlakyTask:fail=1.0", "device": "cpu"}, clients=2)
    assert (machine.client_host, machine.client_gpu) == (None, None)
    assert machine.note == "RuntimeError: this client fails at random"


def test_memory_on_a_gpu_counts_its_context(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda _: 1000)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda _: None)
    monkeypatch.setattr("fedcomp.commands.trial.train", lambda *_, **__: None)
    gpu, elsewhere = torch.device("cuda"), torch.Tensor.to

    def stay(tensor: torch.Tensor, *where: object, **named: object) -> torch.Tensor:
        return tensor if where == (gpu,) else elsewhere(tensor, *where, **named)  # type: ignore[call-overload]

    monkeypatch.setattr(torch.Tensor, "to", stay)
    found = memory_of_one_client(RunConfig(task=TASK), 2, device=gpu)
    assert found["gpu"] == 1000 + CUDA_CONTEXT


def test_an_answer_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    with pytest.raises(ConfigError, match="could not be checked"):
        preflight({"task": TASK}, clients=2)


def test_the_answer_survives_the_way_between_processes() -> None:
    assert Machine(gpus=(1, 2), host=3).gpus == (1, 2)
