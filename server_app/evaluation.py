"""The server's own test of the global model, on held-out examples."""

from __future__ import annotations

import torch
from torch import nn

from fedcomp.tasks.base import Examples, Task

BATCH = 256


@torch.no_grad()
def evaluate(model: nn.Module, task: Task, examples: Examples, *, device: torch.device) -> tuple[float, float]:
    """Return (accuracy, mean loss) of ``model`` in evaluation mode; NaN where nothing counts.

    Both are means over all that counts, whatever the batches: padding tells nothing of either.
    """
    was_training = model.training
    model.to(device).eval()
    right = counted = 0
    total_loss = total_weight = 0.0
    for start in range(0, len(examples), BATCH):
        inputs = examples.inputs[start : start + BATCH].to(device)
        targets = examples.targets[start : start + BATCH].to(device)
        outputs = model(inputs)
        weight = task.loss_weight(targets)
        if weight:
            total_loss += float(task.loss(outputs, targets)) * weight
            total_weight += weight
        batch_right, batch_counted = task.correct(outputs, targets)
        right += batch_right
        counted += batch_counted
    model.train(was_training)
    accuracy = right / counted if counted else float("nan")
    return accuracy, total_loss / total_weight if total_weight else float("nan")
