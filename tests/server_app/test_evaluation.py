from __future__ import annotations

import math

import pytest
import torch

from fedcomp.tasks.base import Examples
from server_app import evaluation
from server_app.evaluation import evaluate
from tests.support.tiny_task import BufferTask, TinyTask

CPU = torch.device("cpu")


def test_accuracy_and_loss_are_means_over_examples_whatever_the_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    task = TinyTask()
    model, examples = task.build_model(seed=1), task.test_examples(seed=1)
    outputs = model(examples.inputs).detach()
    expected = (
        float((outputs.argmax(1) == examples.targets).float().mean()),
        float(task.loss(outputs, examples.targets)),
    )
    for batch in (1, 7, 1000):
        monkeypatch.setattr(evaluation, "BATCH", batch)
        accuracy, loss = evaluate(model, task, examples, device=CPU)
        assert math.isclose(accuracy, expected[0], rel_tol=1e-6)
        assert math.isclose(loss, expected[1], rel_tol=1e-5)


def test_the_model_is_tested_in_evaluation_mode_and_left_as_it_was() -> None:
    task = BufferTask()
    model = task.build_model(seed=1).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    evaluate(model, task, task.test_examples(seed=1), device=CPU)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_an_empty_test_set_has_no_accuracy() -> None:
    task = TinyTask()
    nothing = Examples(torch.zeros(0, 8), torch.zeros(0, dtype=torch.int64))
    assert all(math.isnan(value) for value in evaluate(task.build_model(seed=1), task, nothing, device=CPU))


class Padded(TinyTask):
    """Targets of -100 do not count."""

    def loss_weight(self, targets: torch.Tensor) -> float:
        return float((targets >= 0).sum())

    def correct(self, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[int, int]:
        counts = targets >= 0
        return int(((outputs.argmax(1) == targets) & counts).sum()), int(counts.sum())


def test_what_does_not_count_weighs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Padded()
    model, examples = task.build_model(seed=1), task.test_examples(seed=1)
    targets = examples.targets.clone()
    targets[:150] = -100  # whole batches, and part of one
    kept = Examples(examples.inputs[150:], examples.targets[150:])
    expected = evaluate(model, task, kept, device=CPU)
    monkeypatch.setattr(evaluation, "BATCH", 40)
    found = evaluate(model, task, Examples(examples.inputs, targets), device=CPU)
    assert found == pytest.approx(expected, rel=1e-5)
    nothing = evaluate(model, task, Examples(examples.inputs, torch.full_like(targets, -100)), device=CPU)
    assert all(math.isnan(value) for value in nothing)
