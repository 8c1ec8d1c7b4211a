"""The server's own test of the global model, on held-out examples."""

from __future__ import annotations

import torch
from torch import nn

from fedcomp.tasks.base import Examples, Task

BATCH = 256


@torch.no_grad()
def evaluate(model: nn.Module, task: Task, examples: Examples, *, device: torch.device) -> tuple[float, float]:
    """Return (accuracy, mean loss) of ``model`` in evaluation mode; NaN for an empty test set."""
    was_training = model.training
    model.to(device).eval()
    right = counted = 0
    total_loss = 0.0
    for start in range(0, len(examples), BATCH):
        inputs = examples.inputs[start : start + BATCH].to(device)
        targets = examples.targets[start : start + BATCH].to(device)
        outputs = model(inputs)
        total_loss += float(task.loss(outputs, targets)) * len(inputs)
        batch_right, batch_counted = task.correct(outputs, targets)
        right += batch_right
        counted += batch_counted
    model.train(was_training)
    if counted == 0:
        return float("nan"), float("nan")
    return right / counted, total_loss / len(examples)
