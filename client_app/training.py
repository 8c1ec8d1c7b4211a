"""Local training, and a line in the log about the memory it needs."""

from __future__ import annotations

import logging

import torch
from torch import nn

from fedcomp.tasks.base import Examples, Task
from fedcomp.training.loop import TrainResult, train
from fedcomp.training.options import TrainingOptions

log = logging.getLogger("fedcomp.client")


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
