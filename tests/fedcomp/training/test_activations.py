from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from fedcomp.tasks.base import Examples
from fedcomp.tasks.emnist_model import EmnistCnn
from fedcomp.training import plan
from fedcomp.training.activations import checkpointed, offloaded
from fedcomp.training.loop import train
from fedcomp.training.options import TrainingOptions
from tests.support.tiny_task import TinyTask
from tests.support.training_models import EXAMPLES, all_equal, chain, residual, seeded

CPU = torch.device("cpu")


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, dropout=0.2, batch_first=True)
    return nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(8, 2))


def spectral() -> nn.Module:
    """Its buffers change the output and are changed by each forward pass in training mode."""
    return nn.Sequential(
        *(nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))) for _ in range(2)), nn.Linear(8, 2)
    )


MODELS: list[Callable[[], nn.Module]] = [
    lambda: residual(dropout=0.4, norm=True),
    lambda: chain(dropout=0.4),
    lambda: seeded(encoder),
    lambda: EmnistCnn(seed=1),
]


def inputs_of(model: nn.Module) -> Examples:
    if isinstance(model, EmnistCnn):
        return Examples(torch.rand(6, 1, 28, 28, generator=torch.Generator().manual_seed(1)), torch.arange(6))
    return EXAMPLES


def end(model: nn.Module, **options: object) -> nn.Module:
    wanted = {"local_epochs": 2, "batch_size": 6, "learning_rate": 0.1, "activation_checkpointing": "off", **options}
    train(model, TinyTask(), inputs_of(model), TrainingOptions(**wanted), device=CPU, seed=3)  # type: ignore[arg-type]
    return model


@pytest.mark.parametrize("build", MODELS, ids=["blocks", "chain", "transformer", "cnn"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "saving",
    [
        {"activation_checkpointing": "on"},
        {"offload_activations": True},
        {"activation_checkpointing": "on", "offload_activations": True},
    ],
    ids=["checkpointing", "offload", "both"],
)
def test_saving_memory_changes_no_bit(
    build: Callable[[], nn.Module], precision: str, saving: dict[str, object]
) -> None:
    plain, saved = end(build(), precision=precision), end(build(), precision=precision, **saving)
    assert not all_equal(plain, build())
    assert all_equal(plain, saved)


@contextlib.contextmanager
def kept_bytes(found: list[int]) -> Iterator[None]:
    def keep(tensor: Tensor) -> Tensor:
        found.append(tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield


@pytest.mark.parametrize("build", [residual, chain])
def test_recomputing_keeps_less(build: Callable[[], nn.Module]) -> None:
    sums = []
    for enabled in (False, True):
        model, kept = build(), list[int]()
        with checkpointed(model, enabled), kept_bytes(kept):
            model(EXAMPLES.inputs)
        sums.append(sum(kept))
    assert sums[1] < sums[0]


def test_the_second_pass_works_on_the_buffers_of_the_first() -> None:
    """Two forward passes before any backward pass, so that the buffers have moved on in between."""
    gradients = []
    for enabled in (False, True):
        model = seeded(spectral).train()
        with checkpointed(model, enabled):
            torch.stack([model(EXAMPLES.inputs[:6]), model(EXAMPLES.inputs[6:12])]).square().sum().backward()  # type: ignore[no-untyped-call]
        gradients.append([p.grad for p in model.parameters()] + [b.clone() for b in model.buffers()])
    for plain, again in zip(*gradients, strict=True):
        assert plain is not None
        assert again is not None
        assert torch.equal(plain, again)


def test_the_model_is_as_before_afterwards() -> None:
    model = residual()
    with pytest.raises(ZeroDivisionError), checkpointed(model, enabled=True):
        _ = 1 / 0
    for module in model.modules():
        assert "forward" not in module.__dict__


@pytest.mark.parametrize(("device", "pinned"), [("cpu", False), ("cuda", True)])
def test_a_gpus_activations_go_to_pinned_memory(device: str, pinned: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    monkeypatch.setattr(torch.autograd.graph, "save_on_cpu", lambda *, pin_memory: asked.append(pin_memory))
    offloaded(True, torch.device(device))
    with offloaded(False, torch.device(device)):
        pass
    assert asked == [pinned]


@pytest.mark.parametrize(
    ("word", "free", "passes"), [("on", 10**12, 2), ("off", 0, 1), ("auto", 10**12, 1), ("auto", 0, 2)]
)
def test_training_recomputes_when_asked_to_or_when_memory_would_not_suffice(
    word: str, free: int, passes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No number tells, so the passes through a block are counted."""
    monkeypatch.setattr(plan, "available_memory", lambda _: free)
    model = residual()
    sizes: list[int] = []
    model.get_submodule("blocks.1.first").register_forward_hook(lambda _, inputs, __: sizes.append(len(inputs[0])))
    result = train(model, TinyTask(), EXAMPLES, TrainingOptions(activation_checkpointing=word), device=CPU, seed=3)
    # Batches of 20 and 4; the estimate looks at two and three examples.
    assert [size for size in sizes if size > 3] == [20] * passes + [4] * passes
    assert ("activation checkpointing on" in result.note) == (word == "auto" and not free)


@pytest.mark.parametrize("wanted", [True, False])
def test_training_offloads_when_asked_to(wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def save_on_cpu(*, pin_memory: bool) -> contextlib.AbstractContextManager[None]:
        asked.append(pin_memory)
        return contextlib.nullcontext()

    monkeypatch.setattr(torch.autograd.graph, "save_on_cpu", save_on_cpu)
    end(residual(), offload_activations=wanted, local_epochs=1, batch_size=12)
    assert asked == [False] * (2 * wanted)
