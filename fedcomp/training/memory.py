"""What memory training will take, before it starts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fedcomp.tasks.base import Examples, Task
from fedcomp.training.activations import checkpointed
from fedcomp.training.blocks import each_block
from fedcomp.training.buffers import copy_buffers, lent_buffers
from fedcomp.training.optimizers import state_bytes
from fedcomp.training.options import TrainingOptions
from fedcomp.training.precision import autocast

# BatchNorm cannot train on one example.
_FEW, _MORE = 2, 3


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes on the device at the peak of a training step.

    Attributes
    ----------
    parameters
        The model, buffers included.
    gradients
        One number for each trainable parameter.
    optimizer
        Its state, and the received model when a proximal term needs it.
    activations
        What the forward pass of one micro-batch keeps for its backward pass, and what one block's second pass adds.
    temporary
        Twice the largest of these: it and its gradient while one layer is computed.
    """

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    temporary: int

    @property
    def total(self) -> int:
        """The sum of all parts."""
        return self.parameters + self.gradients + self.optimizer + self.activations + self.temporary


def estimate(model: nn.Module, task: Task, examples: Examples, options: TrainingOptions) -> MemoryEstimate:
    """Estimate the memory of training on the device that the model is on.

    Activations are measured in forward passes of two and of three examples and taken to grow evenly from there; that
    they are recomputed is assumed only if ``options.activation_checkpointing`` is ``on``. Model, buffers and random
    state are as before.

    Raises
    ------
    ConfigError
        When the precision is not there on this device.
    torch.OutOfMemoryError
        When not even three examples fit.
    """
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    weights = sum(parameter.nbytes for parameter in model.parameters())
    activations, temporary = _activations(model, task, examples, options) if len(examples) else (0, 0)
    return MemoryEstimate(
        parameters=weights + sum(buffer.nbytes for buffer in model.buffers()),
        gradients=sum(parameter.nbytes for parameter in trainable),
        optimizer=state_bytes(trainable, options) + (weights if options.proximal_mu else 0),
        activations=activations,
        temporary=temporary,
    )


class _Saved(NamedTuple):
    """Bytes kept by a forward pass: each tensor, in the order they were kept, and all within each block."""

    tensors: list[int]
    blocks: list[int]


def _activations(model: nn.Module, task: Task, examples: Examples, options: TrainingOptions) -> tuple[int, int]:
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    count = min(options.examples_at_once, len(examples))

    def grown(checkpointing: bool) -> _Saved:
        few, more = (
            _measure(model, task, _first(examples, number, device), autocast(options, device), checkpointing)
            for number in (_FEW, _MORE)
        )
        return _Saved(_grown(few.tensors, more.tensors, count), _grown(few.blocks, more.blocks, count))

    plain = grown(checkpointing=False)
    kept = sum(plain.tensors)
    if options.activation_checkpointing == "on":
        kept = min(kept, sum(grown(checkpointing=True).tensors) + max(plain.blocks, default=0))
    if options.offload_activations and device.type == "cuda":
        kept = 0
    return kept, 2 * max(plain.tensors, default=0)


def _grown(few: Sequence[int], more: Sequence[int], count: int) -> list[int]:
    """Return the sizes with ``count`` examples from those with two and with three.

    Each grows on its own: with few examples the largest may be a converted weight, which does not grow, with many an
    activation. A model that keeps another number of tensors for another number of examples is taken as one tensor.
    """
    if len(few) != len(more):
        few, more = [sum(few)], [sum(more)]
    return [max(0, a + (count - _FEW) * (b - a)) for a, b in zip(few, more, strict=True)]


def _first(examples: Examples, count: int, device: torch.device) -> Examples:
    index = torch.arange(count) % len(examples)
    return Examples(examples.inputs[index].to(device), examples.targets[index].to(device))


def _measure(
    model: nn.Module, task: Task, batch: Examples, precision: AbstractContextManager[object], checkpointing: bool
) -> _Saved:
    # Storages by address: tensors that share one are counted once, and none is freed before the end.
    sizes: dict[int, int] = {}
    known: set[int] = set()
    blocks: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    def record(
        _: Sequence[nn.Module], forward: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        before = sum(sizes.values())
        result = forward(*inputs, **named)
        blocks.append(sum(sizes.values()) - before)
        return result

    run = checkpointed(model, enabled=True) if checkpointing else each_block(model, record)
    devices = [batch.inputs.device] if batch.inputs.device.type == "cuda" else []
    with _training(model), torch.random.fork_rng(devices=devices), lent_buffers(copy_buffers([model])), run:
        known.update(tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers()))
        with precision, torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            loss = task.loss(model(batch.inputs), batch.targets)
    del loss
    return _Saved(list(sizes.values()), blocks)


@contextmanager
def _training(model: nn.Module) -> Iterator[None]:
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.train()
        yield
    finally:
        for module, training in modes:
            module.training = training
