"""One batch's gradient, in as many pieces as fit into memory."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Examples, Task
from fedcomp.training.activations import offloaded
from fedcomp.training.buffers import copy_buffers, restore_buffers
from fedcomp.training.errors import TrainingOutOfMemory
from fedcomp.training.options import TrainingOptions
from fedcomp.training.out_of_memory import advice, is_out_of_memory
from fedcomp.training.precision import autocast


class BatchLoss(NamedTuple):
    """The mean loss of a batch, and what it is the mean of."""

    loss: float
    weight: float


class BatchGradient:
    """Leaves the gradient of a batch's mean loss in the model's parameters.

    The mean is over what ``task.loss_weight`` counts, so that any pieces give the whole batch's gradient to float
    tolerance. BatchNorm is the exception: it takes mean and variance from each piece. Dropout draws other masks for
    other pieces.

    With ``micro_batch_size = 0`` the pieces are halved when memory runs out. The same batch is then repeated from the
    same random state and buffers, so no example is lost or counted twice, and the size is kept for the batches after.

    Parameters
    ----------
    scale
        Maps a loss to what is differentiated.
    checkpointing
        Whether activations are recomputed, for the advice in an error.

    Attributes
    ----------
    size
        How many examples are worked on at once, at most.
    """

    def __init__(
        self,
        model: nn.Module,
        task: Task,
        options: TrainingOptions,
        device: torch.device,
        *,
        scale: Callable[[Tensor], Tensor],
        checkpointing: bool,
    ) -> None:
        self.size = options.examples_at_once
        self._model = model
        self._task = task
        self._options = options
        self._device = device
        self._scale = scale
        self._checkpointing = checkpointing

    def compute(self, batch: Examples) -> BatchLoss:
        """Return loss and weight of one batch; weight 0, and no gradient, when nothing in it counts.

        Raises
        ------
        TrainingOutOfMemory
            When one example does not fit, or the micro-batch that was asked for.
        ConfigError
            When the task's loss weight is negative or not finite.
        """
        random, buffers = _random_state(self._device), copy_buffers([self._model])
        while True:
            try:
                return self._whole(batch)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                size = min(self.size, len(batch))
                if size == 1 or self._options.micro_batch_size:
                    raise TrainingOutOfMemory(
                        f"a micro-batch of {size} does not fit into the memory of {self._device}; "
                        + advice(self._options, self._device, checkpointing=self._checkpointing)
                    ) from error
            # The error is gone from here on, and with it all that the attempt held.
            self.size = size // 2
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
            _set_random_state(self._device, random)
            restore_buffers(buffers)

    def _whole(self, batch: Examples) -> BatchLoss:
        self._model.zero_grad()
        count = max(1, math.ceil(len(batch) / self.size))
        pieces = [Examples(*both) for both in zip(*(x.tensor_split(count) for x in _both(batch)), strict=True)]
        weights = [_weight(self._task, piece.targets) for piece in pieces]
        whole = sum(weights)
        loss = 0.0
        for piece, weight in zip(pieces, weights, strict=True):
            if weight:
                loss += self._piece(piece, weight / whole)
        return BatchLoss(loss, whole)

    def _piece(self, piece: Examples, share: float) -> float:
        inputs, targets = (_moved(x, self._device) for x in _both(piece))
        with autocast(self._options, self._device), offloaded(self._options.offload_activations, self._device):
            loss = self._task.loss(self._model(inputs), targets)
        self._scale(loss * share).backward()  # type: ignore[no-untyped-call]
        return loss.item() * share


def _both(examples: Examples) -> tuple[Tensor, Tensor]:
    return examples.inputs, examples.targets


def _moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy to the device; only from pinned memory can a GPU fetch while the CPU goes on."""
    if device.type != "cuda":
        return tensor.to(device)
    return (tensor.pin_memory() if tensor.device.type == "cpu" else tensor).to(device, non_blocking=True)


def _weight(task: Task, targets: Tensor) -> float:
    weight = task.loss_weight(targets)
    if not (math.isfinite(weight) and weight >= 0):
        raise ConfigError(f"task {task.name!r}: loss_weight returned {weight!r}; it must be finite and 0 or above")
    return weight


def _random_state(device: torch.device) -> tuple[Tensor, Tensor | None]:
    return torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None


def _set_random_state(device: torch.device, state: tuple[Tensor, Tensor | None]) -> None:
    torch.set_rng_state(state[0])
    if state[1] is not None:
        torch.cuda.set_rng_state(state[1], device)
