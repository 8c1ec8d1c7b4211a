"""Local training: some epochs on one client's examples."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import Optimizer

from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Examples, Task
from fedcomp.training.activations import checkpointed
from fedcomp.training.batches import BatchGradient
from fedcomp.training.determinism import deterministic
from fedcomp.training.errors import TrainingOutOfMemory
from fedcomp.training.optimizers import build_optimizer
from fedcomp.training.options import TrainingOptions
from fedcomp.training.out_of_memory import is_out_of_memory
from fedcomp.training.plan import plan_memory
from fedcomp.training.precision import loss_scaler


@dataclass(frozen=True)
class TrainResult:
    """What local training did.

    Attributes
    ----------
    loss
        Mean loss over all examples seen, before each step; 0 when there were none.
    steps
        Number of optimizer steps.
    micro_batch_size
        Examples worked on at once in the end: less than asked for when memory ran out.
    note
        What memory was expected to be needed, and what follows from that; empty unless ``auto`` had to decide.
    """

    loss: float
    steps: int
    micro_batch_size: int = 0
    note: str = ""


def train(
    model: nn.Module, task: Task, examples: Examples, options: TrainingOptions, *, device: torch.device, seed: int
) -> TrainResult:
    """Train ``model`` in place, on ``device``, for ``options.local_epochs`` epochs.

    The seed fixes shuffling and dropout; the global random state is left as it was. Gradients are freed at the end.

    Raises
    ------
    TrainingOutOfMemory
        When it does not fit into memory, however small the micro-batches; says what to switch on.
    ConfigError
        When the precision is not there on this device, the optimizer's library is missing, or schedule or loss weight
        return a number that cannot be used.
    """
    scaler = loss_scaler(options, device)
    model.to(device).train()
    with deterministic(options.deterministic):
        plan = plan_memory(model, task, examples, options, device=device)
        with _seeded(device, seed), checkpointed(model, plan.checkpointing):
            gradient = BatchGradient(model, task, options, device, scale=scaler.scale, checkpointing=plan.checkpointing)
            gradient.size = plan.micro_batch_size or gradient.size
            loss, steps = _epochs(gradient, Stepper(model, options, scaler), examples, options)
    model.zero_grad()
    return TrainResult(loss, steps, gradient.size, plan.note)


class Stepper:
    """Takes one step along the gradient that lies in the parameters: proximal term, clipping, rate, optimizer."""

    def __init__(self, model: nn.Module, options: TrainingOptions, scaler: torch.amp.GradScaler) -> None:
        self._parameters = list(model.parameters())
        self._options = options
        self._scaler = scaler
        self._optimizer: Optimizer = build_optimizer(self._parameters, options)
        proximal = self._parameters if options.proximal_mu else []
        self._received = [parameter.detach().clone() for parameter in proximal]

    def step(self, done: float) -> bool:
        """Step, ``done`` of the round being behind; False when a float16 gradient overflowed and the step was left out.

        Raises
        ------
        ConfigError
            When the schedule returns a negative number or none.
        """
        factor = self._options.local_schedule(done)
        if not (math.isfinite(factor) and factor >= 0):
            raise ConfigError(
                f"local-schedule gives {factor!r} at {done:.3g} of a round; it must be finite and 0 or above"
            )
        for group in self._optimizer.param_groups:
            group["lr"] = self._options.learning_rate * factor
        self._scaler.unscale_(self._optimizer)
        self._pull_back()
        if self._options.clip_gradients:
            nn.utils.clip_grad_norm_(self._parameters, self._options.clip_gradients)
        before = self._scaler.get_scale()
        try:
            self._scaler.step(self._optimizer)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            # Some parameters may have moved already, so this cannot be repeated.
            raise TrainingOutOfMemory(
                f"no memory for a step of optimizer {self._options.optimizer!r}; sgd with momentum = 0 keeps no state"
            ) from error
        self._scaler.update()
        return self._scaler.get_scale() >= before

    def _pull_back(self) -> None:
        """Add the gradient of mu/2·‖w - w_received‖²."""
        with torch.no_grad():
            for parameter, received in zip(self._parameters, self._received, strict=bool(self._received)):
                if parameter.grad is not None:
                    parameter.grad.add_(parameter - received, alpha=self._options.proximal_mu)


def _epochs(
    gradient: BatchGradient, stepper: Stepper, examples: Examples, options: TrainingOptions
) -> tuple[float, int]:
    """Return (mean loss, number of steps)."""
    batches = options.local_epochs * math.ceil(len(examples) / options.batch_size)
    total_loss, seen, done, steps = 0.0, 0.0, 0, 0
    for _ in range(options.local_epochs):
        order = torch.randperm(len(examples))
        for start in range(0, len(examples), options.batch_size):
            chosen = order[start : start + options.batch_size]
            loss, weight = gradient.compute(Examples(examples.inputs[chosen], examples.targets[chosen]))
            if weight:
                steps += stepper.step(done / batches)
                total_loss += loss * weight
                seen += weight
            done += 1
    return total_loss / seen if seen else 0.0, steps


@contextmanager
def _seeded(device: torch.device, seed: int) -> Iterator[None]:
    """Seed the generators of CPU and device meanwhile; those of other GPUs are not touched."""
    on_gpu = device.type == "cuda"
    with torch.random.fork_rng(devices=[device] if on_gpu else []):
        torch.default_generator.manual_seed(seed)
        if on_gpu:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(seed)
        yield
