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
BATCH = 20


def decide(
    monkeypatch: pytest.MonkeyPatch,
    *,
    plain: float,
    less: float,
    free: float | None,
    model: nn.Module | None = None,
    micro: int = 0,
) -> MemoryPlan:
    """Needs in GB with a model of 1 GB, and what is free beside it."""

    def estimate(model: nn.Module, task: TinyTask, examples: Examples, options: TrainingOptions) -> MemoryEstimate:
        needed = less if options.activation_checkpointing == "on" else plain
        share = options.examples_at_once / BATCH
        return MemoryEstimate(GB, 0, 0, round((needed - 1) * GB * share), 0)

    monkeypatch.setattr(plan, "estimate", estimate)
    monkeypatch.setattr(plan, "available_memory", lambda _: None if free is None else round(free * GB))
    options = TrainingOptions(batch_size=BATCH, micro_batch_size=micro)
    return plan_memory(model or residual(), TinyTask(), EXAMPLES, options, device=CPU)


def test_what_fits_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=5, free=8.1)
    assert found == MemoryPlan(False, "training needs 9.1 GB, you have 9.1")


def test_what_does_not_fit_is_recomputed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=5, free=7)
    assert found == MemoryPlan(True, "training needs 9.1 GB, you have 8.0: activation checkpointing on")


def test_what_then_does_not_fit_either_is_done_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=8.2, free=7)
    note = "training needs 9.1 GB, you have 8.0: activation checkpointing on, which still needs 8.2"
    assert found == MemoryPlan(True, f"{note}: micro-batches of 10", 10)
    assert decide(monkeypatch, plain=99, less=30, free=2).micro_batch_size == 1


def test_the_sizes_are_those_that_halving_would_come_to(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {decide(monkeypatch, plain=99, less=1 + less, free=1).micro_batch_size for less in range(2, 20)}
    assert sizes == {10, 5, 2, 1}


def test_where_not_even_one_example_fits_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9999, less=900, free=2)
    assert found.micro_batch_size == 0
    assert found.note.endswith("activation checkpointing on, which still needs 900.0; switch on: precision = bfloat16")


def test_a_micro_batch_that_was_asked_for_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=8.2, free=0.1, micro=5)
    assert (found.micro_batch_size, "micro-batch-size = 0 (automatic)" in found.note) == (0, True)


def test_a_model_without_blocks_is_done_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    found = decide(monkeypatch, plain=9.1, less=5, free=7, model=nn.Linear(8, 2))
    assert found == MemoryPlan(
        False, "training needs 9.1 GB, you have 8.0, and the model has no blocks to recompute: micro-batches of 10", 10
    )


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
