"""Memory that runs out, injected: the same batch again in smaller pieces."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch import Tensor, nn

from fedcomp.tasks.base import Examples
from fedcomp.training import batches
from fedcomp.training.batches import BatchGradient, _moved
from fedcomp.training.errors import TrainingOutOfMemory
from fedcomp.training.loop import TrainResult, train
from fedcomp.training.options import TrainingOptions
from tests.support.tiny_task import TinyTask
from tests.support.training_models import EXAMPLES, Scarce, all_equal, chain, part, residual

CPU = torch.device("cpu")
ON_CPU = (
    "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate"
)
ON_WINDOWS = "[enforce fail at alloc_cpu.cpp:121] data. DefaultCPUAllocator: not enough memory: you tried to allocate"


def run(model: nn.Module, options: TrainingOptions, *, examples: Examples = EXAMPLES) -> TrainResult:
    return train(model, TinyTask(), examples, options, device=CPU, seed=3)


def options(**changes: object) -> TrainingOptions:
    wanted = {"learning_rate": 0.1, "batch_size": 12, "activation_checkpointing": "off", **changes}
    return TrainingOptions(**wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize(
    "error", [None, RuntimeError(ON_CPU), RuntimeError(ON_WINDOWS)], ids=["cuda", "cpu", "windows"]
)
def test_halved_batches_train_as_if_they_had_been_small_from_the_start(where: str, error: Exception | None) -> None:
    """Bit for bit: dropout is repeated, BatchNorm counts nothing twice, no example is lost."""
    scarce = Scarce(residual(dropout=0.4, norm=True), most=3, where=where, error=error)
    result = run(scarce, options(local_epochs=2))
    expected = residual(dropout=0.4, norm=True)
    wanted = run(expected, options(local_epochs=2, micro_batch_size=3))
    assert all_equal(scarce.inner, expected)
    assert (result.loss, result.steps, result.micro_batch_size) == (wanted.loss, wanted.steps, 3)
    # Two failures, then never again.
    assert scarce.sizes == [12, 6] + [3] * 16


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_memory_that_runs_out_later_changes_later_batches_only(where: str) -> None:
    """The third batch is the first that does not fit; what came before must not be done again."""
    scarce = Scarce(residual(dropout=0.4), most=12, where=where)
    seen = 0

    def shrink(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        nonlocal seen
        seen += 1
        scarce.most = 12 if seen < 3 else 6

    scarce.register_forward_pre_hook(shrink)
    result = run(scarce, options(local_epochs=2))
    assert scarce.sizes == [12, 12, 12, 6, 6, 6, 6]
    assert (result.steps, result.micro_batch_size) == (4, 6)

    class Sizes(BatchGradient):
        """Has the small size from the third batch on, without any failure."""

        done = 0

        def compute(self, batch: Examples) -> batches.BatchLoss:
            self.size = 12 if self.done < 2 else 6
            self.done += 1
            return super().compute(batch)

    expected = residual(dropout=0.4)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedcomp.training.loop.BatchGradient", Sizes)
        run(expected, options(local_epochs=2))
    assert all_equal(scarce.inner, expected)


def test_the_last_short_batch_is_halved_from_its_own_size() -> None:
    scarce = Scarce(chain(), most=1, where="forward")
    run(scarce, options(batch_size=20), examples=part(EXAMPLES, 3))
    assert scarce.sizes == [3, 1, 1, 1]


def test_what_the_failed_attempt_held_is_free_before_the_next() -> None:
    held: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def watch(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        alive.append(sum(reference() is not None for reference in held))
        if len(held) < 2:
            # What refers to itself is not free before Python looks for it.
            circle: list[object] = [output]
            circle.append(circle)
        held.append(weakref.ref(output))

    scarce = Scarce(chain(), most=3, where="backward")
    scarce.inner[3].register_forward_hook(watch)  # type: ignore[index]
    run(scarce, options())
    assert len(alive) == 2 + 8
    assert not any(alive)


def test_gradients_of_the_failed_attempt_are_dropped() -> None:
    """The second of two pieces fails: the first one's gradient is there already."""
    scarce = Scarce(chain(), most=12, where="backward")

    def shrink(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        scarce.most = 3 if len(scarce.sizes) == 1 else 12

    scarce.register_forward_pre_hook(shrink)
    gradient = BatchGradient(scarce, TinyTask(), options(), CPU, scale=lambda loss: loss, checkpointing=False)
    gradient.size = 6
    gradient.compute(part(EXAMPLES, 12))
    assert scarce.sizes[:4] == [6, 6, 3, 3]
    found = [parameter.grad.clone() for parameter in scarce.parameters() if parameter.grad is not None]
    expected = chain()
    TinyTask().loss(expected(EXAMPLES.inputs[:12]), EXAMPLES.targets[:12]).backward()  # type: ignore[no-untyped-call]
    for mine, theirs in zip(found, expected.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs.grad)


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_one_example_that_does_not_fit_is_told(where: str) -> None:
    with pytest.raises(
        TrainingOutOfMemory,
        match=r"a micro-batch of 1 does not fit into the memory of cpu; switch on: activation-checkpointing = on, "
        r"precision = bfloat16$",
    ) as caught:
        run(Scarce(chain(), most=0, where=where), options())
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)


def test_a_given_micro_batch_is_not_halved() -> None:
    scarce = Scarce(chain(), most=3, where="forward")
    with pytest.raises(
        TrainingOutOfMemory, match=r"a micro-batch of 6 does not fit .*micro-batch-size = 0 \(automatic\)"
    ):
        run(scarce, options(micro_batch_size=6))
    assert scarce.sizes == [6]


@pytest.mark.parametrize("where", ["forward", "backward"])
def test_other_errors_pass(where: str) -> None:
    scarce = Scarce(chain(), most=3, where=where, error=RuntimeError("shapes do not fit"))
    with pytest.raises(RuntimeError, match="shapes do not fit"):
        run(scarce, options())
    assert scarce.sizes == [12]


def test_recomputed_activations_survive_a_shortage_too() -> None:
    scarce = Scarce(residual(dropout=0.4, norm=True), most=3, where="backward")
    run(scarce, options(activation_checkpointing="on"))
    expected = residual(dropout=0.4, norm=True)
    run(expected, options(micro_batch_size=3))
    assert all_equal(scarce.inner, expected)


def test_pieces_are_of_like_size() -> None:
    """BatchNorm needs two examples: 13 in pieces of at most 12 are 7 and 6, not 12 and 1."""
    scarce = Scarce(residual(norm=True), most=99, where="forward")
    run(scarce, options(batch_size=13, micro_batch_size=12), examples=part(EXAMPLES, 13))
    assert scarce.sizes == [7, 6]


class Recorder:
    """Stands for a tensor and writes down what is done with it."""

    def __init__(self, place: str) -> None:
        self.device = torch.device(place)
        self.calls: list[object] = []

    def pin_memory(self) -> Recorder:
        self.calls.append("pinned")
        return self

    def to(self, device: torch.device, **options: bool) -> Recorder:
        self.calls.append((str(device), options))
        return self


@pytest.mark.parametrize(
    ("source", "target", "calls"),
    [
        ("cpu", "cpu", [("cpu", {})]),
        ("cpu", "cuda:1", ["pinned", ("cuda:1", {"non_blocking": True})]),
        ("cuda:1", "cuda:1", [("cuda:1", {"non_blocking": True})]),
    ],
)
def test_only_a_gpu_is_fed_from_pinned_memory(source: str, target: str, calls: list[object]) -> None:
    tensor = Recorder(source)
    _moved(tensor, torch.device(target))  # type: ignore[arg-type]
    assert tensor.calls == calls
