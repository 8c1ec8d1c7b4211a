from __future__ import annotations

from dataclasses import fields

import pytest
import torch

from client_app.training import train_locally
from fedcomp.run_config import RunConfig
from fedcomp.tasks.base import Examples
from fedcomp.training.options import TrainingOptions
from fedcomp.training.settings import training_options
from tests.support.runs import run_in_process, settings
from tests.support.tiny_task import TinyTask

CPU = torch.device("cpu")


def options(batch_size: int = 20, **changes: float | str | bool) -> TrainingOptions:
    config = RunConfig(**changes)  # type: ignore[arg-type]
    return training_options(config, learning_rate=0.1, batch_size=batch_size)


def train(seed: int = 3, **changes: int) -> tuple[dict[str, torch.Tensor], float, int]:
    task = TinyTask()
    model = task.build_model(seed=1)
    result = train_locally(model, task, task.client_examples(0, 1, seed=1), options(**changes), device=CPU, seed=seed)
    return model.state_dict(), result.loss, result.steps


def test_one_full_batch_step_is_sgd_by_hand() -> None:
    task = TinyTask()
    model = task.build_model(seed=1)
    examples = task.client_examples(0, 1, seed=1)
    loss = task.loss(model(examples.inputs), examples.targets)
    loss.backward()  # type: ignore[no-untyped-call]
    expected = {name: p.detach() - 0.1 * p.grad for name, p in model.named_parameters() if p.grad is not None}
    found, mean_loss, steps = train(batch_size=40)
    assert steps == 1
    assert mean_loss == pytest.approx(loss.item(), rel=1e-5)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_steps_are_epochs_times_batches() -> None:
    assert train(batch_size=16, local_epochs=3)[2] == 9


def test_the_seed_fixes_the_order_and_leaves_global_randomness_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first, second, other = train(seed=3)[0], train(seed=3)[0], train(seed=4)[0]
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_clients_with_hardly_any_examples_train(count: int) -> None:
    task = TinyTask()
    examples = Examples(torch.zeros(count, 8), torch.zeros(count, dtype=torch.int64))
    result = train_locally(task.build_model(seed=1), task, examples, options(), device=CPU, seed=1)
    assert result.steps == (1 if count else 0)


def test_every_setting_of_local_training_is_an_option() -> None:
    changed: dict[str, float | str | bool] = {
        "momentum": 0.3,
        "optimizer": "adamw",
        "weight_decay": 0.01,
        "proximal_mu": 0.2,
        "clip_gradients": 1.5,
        "local_epochs": 4,
        "micro_batch_size": 3,
        "precision": "bfloat16",
        "activation_checkpointing": "on",
        "offload_activations": True,
        "deterministic": True,
    }
    found = options(7, **changed)
    for name, value in changed.items():
        assert getattr(found, name) == value
        assert getattr(options(), name) != value
    # The request's, not the run's: they are scheduled.
    assert (found.learning_rate, found.batch_size) == (0.1, 7)
    assert {*changed, "learning_rate", "batch_size", "local_schedule"} == {item.name for item in fields(found)}


def test_the_rate_follows_its_schedule_within_the_round() -> None:
    falling = options(local_schedule="linear:end=0.5").local_schedule
    assert falling(0.0) == 1.0
    assert falling(0.995) == pytest.approx(0.5, abs=0.01)
    assert options().local_schedule(0.7) == 1.0
    model, slower = train()[0], train(local_schedule="linear:end=0")[0]  # type: ignore[arg-type]
    assert not all(torch.equal(model[name], slower[name]) for name in model)


def test_what_memory_needs_is_said(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcomp.training.plan.available_memory", lambda _: 1000)
    with caplog.at_level("WARNING", logger="fedcomp.client"):
        train()
    assert "training needs under 0.1 GB, you have" in caplog.text
    caplog.clear()
    monkeypatch.setattr("fedcomp.training.plan.available_memory", lambda _: 2**40)
    with caplog.at_level("WARNING", logger="fedcomp.client"):
        train()
    assert not caplog.text  # enough is no news


@pytest.mark.parametrize(
    "changes",
    [
        {"optimizer": "adam", "learning_rate": 0.01},
        {"proximal_mu": 0.1, "clip_gradients": 1.0, "weight_decay": 0.001},
        {"micro_batch_size": 7, "precision": "bfloat16"},
        {"activation_checkpointing": "on", "offload_activations": True, "deterministic": True},
        {"local_schedule": "cosine:end=0.1,warmup=10", "batch_schedule": "linear:end=2"},
    ],
)
def test_a_run_learns_with_each_of_them(changes: dict[str, float | str | bool]) -> None:
    run, _ = run_in_process(settings(num_server_rounds=4, **changes))
    assert run.best_accuracy is not None
    assert run.best_accuracy > 0.9
    assert all(item.rejected == 0 for item in run.rounds)
