from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Examples, Task
from fedcomp.tasks.emnist_model import EmnistCnn
from fedcomp.training import loop
from fedcomp.training.errors import TrainingOutOfMemory
from fedcomp.training.loop import TrainResult, train
from fedcomp.training.options import TrainingOptions
from tests.support.tiny_task import BufferTask, HalfTask, TinyTask
from tests.support.training_models import EXAMPLES, all_equal, chain, part, residual

CPU = torch.device("cpu")


def run(model: nn.Module, options: TrainingOptions, *, examples: Examples = EXAMPLES, seed: int = 3) -> TrainResult:
    return train(model, TinyTask(), examples, options, device=CPU, seed=seed)


def trained(model: nn.Module, seed: int = 3, **options: object) -> nn.Module:
    run(model, TrainingOptions(learning_rate=0.1, **options), seed=seed)  # type: ignore[arg-type]
    return model


def plain_sgd(
    model: nn.Module, task: Task, examples: Examples, options: TrainingOptions, *, seed: int
) -> tuple[float, int]:
    """What training was before it had any options: the numbers may not change by a bit."""
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=options.learning_rate, momentum=options.momentum)
    total_loss, seen, steps = 0.0, 0, 0
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for _ in range(options.local_epochs):
            order = torch.randperm(len(examples))
            for start in range(0, len(examples), options.batch_size):
                batch = order[start : start + options.batch_size]
                optimizer.zero_grad()
                loss = task.loss(model(examples.inputs[batch]), examples.targets[batch])
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total_loss += loss.item() * len(batch)
                seen += len(batch)
                steps += 1
    return total_loss / seen, steps


def images(count: int) -> Examples:
    generator = torch.Generator().manual_seed(1)
    return Examples(torch.rand(count, 1, 28, 28, generator=generator), torch.arange(count) % 62)


@pytest.mark.parametrize("checkpointing", ["auto", "off"])
@pytest.mark.parametrize(
    ("model", "task", "examples"),
    [
        (EmnistCnn(seed=1), TinyTask(), images(9)),
        (BufferTask().build_model(seed=1), BufferTask(), EXAMPLES),
        (HalfTask().build_model(seed=1), HalfTask(), HalfTask(examples=24).client_examples(0, 1, seed=1)),
        (residual(dropout=0.3, norm=True), TinyTask(), EXAMPLES),
    ],
    ids=["dropout", "buffers", "bfloat16 weights", "blocks"],
)
def test_plain_training_is_what_it_was_bit_for_bit(
    model: nn.Module, task: Task, examples: Examples, checkpointing: str
) -> None:
    options = TrainingOptions(local_epochs=2, batch_size=5, activation_checkpointing=checkpointing)
    if any(isinstance(module, nn.BatchNorm1d) for module in model.modules()):
        options = TrainingOptions(local_epochs=2, batch_size=6, activation_checkpointing=checkpointing)
    old, new = copy.deepcopy(model), copy.deepcopy(model)
    expected = plain_sgd(old, task, examples, options, seed=7)
    result = train(new, task, examples, options, device=CPU, seed=7)
    assert (result.loss, result.steps) == expected
    assert all_equal(old, new)


@pytest.mark.parametrize("build", [residual, chain])
@pytest.mark.parametrize("size", [1, 5, 7, 12])
@pytest.mark.parametrize("extra", [{}, {"optimizer": "adamw"}, {"proximal_mu": 0.5, "clip_gradients": 0.3}])
def test_micro_batches_train_as_the_whole_batch(
    build: Callable[[], nn.Module], size: int, extra: dict[str, object]
) -> None:
    whole = trained(build(), batch_size=14, local_epochs=2, **extra)  # type: ignore[arg-type]
    pieces = trained(build(), batch_size=14, local_epochs=2, micro_batch_size=size, **extra)  # type: ignore[arg-type]
    assert not all_equal(whole, build())
    for name, value in whole.state_dict().items():
        torch.testing.assert_close(pieces.state_dict()[name], value, rtol=1e-4, atol=2e-5)


def test_a_micro_batch_may_be_larger_than_the_batch() -> None:
    assert all_equal(trained(chain(), batch_size=6), trained(chain(), batch_size=6, micro_batch_size=50))


class PaddedTask(TinyTask):
    """The loss leaves targets of -1 out."""

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return nn.functional.cross_entropy(outputs, targets, ignore_index=-1)

    def loss_weight(self, targets: Tensor) -> float:
        return float((targets != -1).sum())


@given(padded=st.sets(st.integers(0, 23), max_size=24), size=st.integers(1, 12))
@settings(max_examples=30)
def test_padding_counts_in_no_micro_batch(padded: set[int], size: int) -> None:
    targets = EXAMPLES.targets.clone()
    targets[list(padded)] = -1
    examples = Examples(EXAMPLES.inputs, targets)
    models, losses = [], []
    for micro in (0, size):
        model = residual()
        options = TrainingOptions(batch_size=12, micro_batch_size=micro)
        losses.append(train(model, PaddedTask(), examples, options, device=CPU, seed=3))
        models.append(model)
    assert losses[0].steps == losses[1].steps
    assert losses[0].loss == pytest.approx(losses[1].loss, rel=1e-5)
    for name, value in models[0].state_dict().items():
        torch.testing.assert_close(models[1].state_dict()[name], value, rtol=1e-4, atol=1e-5)


def test_a_batch_in_which_nothing_counts_makes_no_step() -> None:
    model = residual()
    examples = Examples(EXAMPLES.inputs, torch.full_like(EXAMPLES.targets, -1))
    result = train(model, PaddedTask(), examples, TrainingOptions(weight_decay=0.1), device=CPU, seed=3)
    assert (result.loss, result.steps) == (0.0, 0)
    assert all_equal(model, residual())


def test_the_loss_is_the_mean_over_all_that_counts() -> None:
    targets = EXAMPLES.targets.clone()
    targets[:9] = -1
    model = residual()
    expected = PaddedTask().loss(model(EXAMPLES.inputs), targets).item()
    options = TrainingOptions(learning_rate=1e-12, batch_size=5, momentum=0.0)
    result = train(model, PaddedTask(), Examples(EXAMPLES.inputs, targets), options, device=CPU, seed=3)
    assert result.loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_that_is_none_is_refused(weight: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TinyTask, "loss_weight", lambda *_: weight)
    with pytest.raises(ConfigError, match="task 'tiny': loss_weight returned"):
        run(residual(), TrainingOptions())


def test_the_proximal_term_pulls_towards_the_received_model() -> None:
    """Against the objective written out, differentiated by torch."""
    mu, rate = 0.7, 0.1
    model = chain()
    received = [parameter.detach().clone() for parameter in model.parameters()]
    expected = copy.deepcopy(model)
    optimizer = torch.optim.SGD(expected.parameters(), lr=rate, momentum=0.5)
    for _ in range(3):
        optimizer.zero_grad()
        loss = TinyTask().loss(expected(EXAMPLES.inputs), EXAMPLES.targets)
        distance = sum(((p - w) ** 2).sum() for p, w in zip(expected.parameters(), received, strict=True))
        (loss + mu / 2 * distance).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    run(model, TrainingOptions(learning_rate=rate, momentum=0.5, proximal_mu=mu, local_epochs=3, batch_size=24))
    for found, wanted in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


def test_the_reported_loss_is_the_tasks_alone() -> None:
    with_term = run(chain(), TrainingOptions(proximal_mu=5.0, local_epochs=1, batch_size=24))
    assert with_term.loss == run(chain(), TrainingOptions(batch_size=24)).loss


@pytest.mark.parametrize("micro", [0, 5])
def test_gradients_are_cut_to_their_length(micro: int) -> None:
    model = chain()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    options = TrainingOptions(learning_rate=1.0, momentum=0.0, clip_gradients=0.01, batch_size=24)
    run(model, options if not micro else TrainingOptions(**{**options.__dict__, "micro_batch_size": micro}))
    moved = torch.cat([(p - w).flatten() for p, w in zip(model.parameters(), before, strict=True)])
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-3)


def test_short_gradients_are_left_alone() -> None:
    assert all_equal(trained(chain()), trained(chain(), clip_gradients=1e6))


def test_the_schedule_scales_each_step() -> None:
    asked: list[float] = []

    def half_then_nothing(fraction: float) -> float:
        asked.append(fraction)
        return 0.5 if fraction < 0.25 else 0.0

    model = trained(chain(), momentum=0.0, batch_size=12, local_epochs=2, local_schedule=half_then_nothing)
    assert asked == [0, 0.25, 0.5, 0.75]
    expected = chain()
    run(expected, TrainingOptions(learning_rate=0.05, momentum=0.0, batch_size=12, local_schedule=lambda f: f == 0))
    assert all_equal(model, expected)


@pytest.mark.parametrize("factor", [-0.1, math.nan, math.inf])
def test_a_schedule_that_makes_no_sense_is_refused(factor: float) -> None:
    with pytest.raises(ConfigError, match="local-schedule gives"):
        trained(chain(), local_schedule=lambda _: factor)


def test_weight_decay_and_optimizers_are_used() -> None:
    ends = [trained(chain(), **extra) for extra in ({}, {"weight_decay": 0.1}, {"optimizer": "adam"})]
    assert not all_equal(ends[0], ends[1])
    assert not all_equal(ends[0], ends[2])


def test_frozen_weights_stay() -> None:
    model = residual()
    model.head.requires_grad_(False)
    before = copy.deepcopy(model.head)
    trained(model, proximal_mu=0.1, clip_gradients=1.0)
    assert all_equal(model.head, before)  # type: ignore[arg-type]
    assert not all_equal(model, residual())


def test_bfloat16_computes_in_16_bits_and_keeps_float32_weights() -> None:
    seen: list[torch.dtype] = []
    model = chain()
    next(model.children()).register_forward_hook(lambda _, __, output: seen.append(output.dtype))
    trained(model, precision="bfloat16", activation_checkpointing="off")
    assert set(seen) == {torch.bfloat16}
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32}
    exact = trained(chain(), activation_checkpointing="off")
    assert not all_equal(model, exact)
    for name, value in exact.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=0.1, atol=0.02)


def test_float16_is_refused_without_a_gpu() -> None:
    with pytest.raises(ConfigError, match="'float16', which needs a CUDA device; on cpu use bfloat16"):
        run(chain(), TrainingOptions(precision="float16"), examples=part(EXAMPLES, 0))


@pytest.mark.parametrize("extra", [{}, {"clip_gradients": 0.1, "proximal_mu": 0.3, "micro_batch_size": 4}])
def test_scaled_losses_give_the_same_steps(extra: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    expected = trained(chain(), **extra)  # type: ignore[arg-type]
    scales: list[float] = []

    def scaler(options: TrainingOptions, device: torch.device) -> torch.amp.GradScaler:
        made = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scales.append(made.get_scale())
        return made

    monkeypatch.setattr(loop, "loss_scaler", scaler)
    # A power of two: scaled and scaled back, a float32 gradient has the same bits.
    assert all_equal(trained(chain(), **extra), expected)  # type: ignore[arg-type]
    assert scales == [1024.0]


def test_a_step_that_overflows_is_left_out_and_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "loss_scaler", lambda *_: torch.amp.GradScaler("cpu", init_scale=3e38))
    model = chain()
    steep = Examples(1e4 * EXAMPLES.inputs, EXAMPLES.targets)
    result = run(model, TrainingOptions(batch_size=24), examples=steep)
    assert result.steps == 0
    assert all_equal(model, chain())


def test_global_randomness_is_left_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    ends = [trained(residual(dropout=0.3), seed=seed) for seed in (3, 3, 4)]
    assert torch.equal(torch.rand(3), expected)
    assert all_equal(ends[0], ends[1])
    assert not all_equal(ends[0], ends[2])


def test_gradients_are_freed_and_the_result_says_what_was_planned() -> None:
    model = chain()
    result = run(model, TrainingOptions(batch_size=12, micro_batch_size=5))
    assert all(parameter.grad is None for parameter in model.parameters())
    assert result.micro_batch_size == 5
    assert result.note.startswith("training needs ")
    assert run(model, TrainingOptions(activation_checkpointing="off")).note == ""


def test_determinism_is_on_meanwhile_only() -> None:
    seen: list[bool] = []
    model = chain()
    model.register_forward_hook(lambda *_: seen.append(torch.are_deterministic_algorithms_enabled()))
    trained(model, deterministic=True)
    assert seen
    assert all(seen)
    assert not torch.are_deterministic_algorithms_enabled()
    seen.clear()
    trained(model)
    assert not any(seen)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_clients_with_hardly_any_examples_train(count: int) -> None:
    assert run(chain(), TrainingOptions(), examples=part(EXAMPLES, count)).steps == (1 if count else 0)


def test_an_optimizer_without_memory_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(torch.optim.Adam, "step", fail)
    with pytest.raises(TrainingOutOfMemory, match="step of optimizer 'adam'"):
        trained(chain(), optimizer="adam")


def test_other_errors_of_an_optimizer_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(torch.optim.Adam, "step", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        trained(chain(), optimizer="adam")
