"""Local training as a run's settings and the server's request want it."""

from __future__ import annotations

import logging

import torch
from torch import nn

from fedcomp.optim.schedule_specs import parse_schedule
from fedcomp.run_config import RunConfig
from fedcomp.tasks.base import Examples, Task
from fedcomp.training.loop import TrainResult, train
from fedcomp.training.options import TrainingOptions

log = logging.getLogger("fedcomp.client")

_PARTS = 100
"""A round is so many parts to the schedule within it."""


def training_options(config: RunConfig, *, learning_rate: float, batch_size: int) -> TrainingOptions:
    """Return how a client trains with a run's settings, and with the rate and batch size of this round.

    Raises
    ------
    ConfigError
        Naming the setting, its value and what is allowed.
    """
    schedule = parse_schedule(config.local_schedule, key="local-schedule")

    def factor(fraction: float) -> float:
        return schedule.factor(int(fraction * _PARTS) + 1, _PARTS)

    return TrainingOptions(
        learning_rate=learning_rate,
        momentum=config.momentum,
        optimizer=config.optimizer,
        weight_decay=config.weight_decay,
        proximal_mu=config.proximal_mu,
        clip_gradients=config.clip_gradients,
        local_epochs=config.local_epochs,
        batch_size=batch_size,
        micro_batch_size=config.micro_batch_size,
        precision=config.precision,
        activation_checkpointing=config.activation_checkpointing,
        offload_activations=config.offload_activations,
        deterministic=config.deterministic,
        local_schedule=factor,
    )


def train_locally(
    model: nn.Module, task: Task, examples: Examples, options: TrainingOptions, *, device: torch.device, seed: int
) -> TrainResult:
    """Train ``model`` in place and say what memory made of it; see :func:`fedcomp.training.loop.train`."""
    result = train(model, task, examples, options, device=device, seed=seed)
    if result.note:
        # "training needs 2.1 GB, you have 7.9" is no news; what follows after a colon or an "and" is.
        is_news = ":" in result.note or ", and" in result.note
        log.log(logging.WARNING if is_news else logging.INFO, "%s", result.note)
    return result
