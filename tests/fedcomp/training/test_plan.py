from __future__ import annotations

import pytest
import torch
from torch import nn

from fedcomp.tasks.base import Examples
from fedcomp.training import plan
from fedcomp.training.memory import MemoryEstimate
from fedcomp.training.options import TrainingOptions
from fedcomp.training.plan import MemoryPlan, plan_memory
from tests.support.tiny_task import TinyTask
from tests.support.training_models import EXAMPLES, Scarce, all_equal, part, residual

CPU = torch.device("cpu")
GB = 10**9


def decide(
    monkeypatch: pytest.MonkeyPatch, *, plain: float, less: float, free: float | None, model: nn.Module | None = None
) -> MemoryPlan:
    """Needs in GB with a model of 1 GB, and what is free beside it."""

    def estimate(model: nn.Module, task: TinyTask, examples: Examples, options: TrainingOptions) -> MemoryEstimate:
        needed = less if options.activation_checkpointing == "on" else plain
        return MemoryEstimate(GB, 0, 0, round((needed - 1) * GB), 0)

    monkeypatch.setattr(plan, "estimate", estimate)
    monkeypatch.setattr(plan, "available_memory", lambda _: None if free is None else round(free * GB))
    return plan_memory(model or residual(), TinyTask(), EXAMPLES, TrainingOptions(), device=CPU)


def test_what_fits_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=5, free=8.1)
    assert found == MemoryPlan(False, "training needs 9.1 GB, you have 9.1")


def test_what_does_not_fit_is_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=5, free=7)
    assert found == MemoryPlan(True, "training needs 9.1 GB, you have 8.0: activation checkpointing on")


def test_what_then_does_not_fit_either_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=8.2, free=7)
    assert found.checkpointing
    assert found.note == (
        "training needs 9.1 GB, you have 8.0: activation checkpointing on, which still needs 8.2; "
        "switch on: precision = bfloat16"
    )


def test_a_model_without_blocks_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=5, free=7, model=nn.Linear(8, 2))
    assert not found.checkpointing
    assert "has no blocks to recompute; switch on: precision = bfloat16" in found.note


def test_a_machine_that_does_not_tell_its_memory_decides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert decide(monkeypatch, plain=9.1, less=5, free=None) == MemoryPlan(False)


@pytest.mark.parametrize(("word", "expected"), [("on", True), ("off", False)])
def test_what_is_asked_for_is_done_without_a_look(word: str, expected: bool) -> None:
    scarce = Scarce(residual(), most=99, where="forward")
    options = TrainingOptions(activation_checkpointing=word)
    assert plan_memory(scarce, TinyTask(), EXAMPLES, options, device=CPU) == MemoryPlan(expected)
    assert scarce.sizes == []


def test_three_examples_that_do_not_fit_are_recomputed() -> None:
    scarce = Scarce(residual(), most=2, where="forward")
    found = plan_memory(scarce, TinyTask(), EXAMPLES, TrainingOptions(), device=CPU)
    assert found == MemoryPlan(True, "three examples do not fit into memory: activation checkpointing on")


def test_other_errors_pass() -> None:
    scarce = Scarce(residual(), most=1, where="forward", error=RuntimeError("shapes"))
    with pytest.raises(RuntimeError, match="shapes"):
        plan_memory(scarce, TinyTask(), EXAMPLES, TrainingOptions(), device=CPU)


def test_looking_changes_nothing() -> None:
    model = residual(dropout=0.5, norm=True).eval()
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    found = plan_memory(model, TinyTask(), EXAMPLES, TrainingOptions(), device=CPU)
    assert torch.equal(torch.rand(3), expected)
    assert found.note.startswith("training needs under 0.1 GB, you have ")
    assert all_equal(model, residual(dropout=0.5, norm=True))
    assert not any(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_nobody_without_examples_needs_memory() -> None:
    found = plan_memory(residual(), TinyTask(), part(EXAMPLES, 0), TrainingOptions(), device=CPU)
    assert found == MemoryPlan(False)
