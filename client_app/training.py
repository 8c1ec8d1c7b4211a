"""Local training: some epochs of SGD on one client's examples."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from fedcomp.run_config import RunConfig
from fedcomp.tasks.base import Examples, Task


@dataclass(frozen=True)
class TrainResult:
    """What local training did.

    Attributes
    ----------
    loss
        Mean loss over all examples seen, before each step; 0 when there were none.
    steps
        Number of optimizer steps.
    """

    loss: float
    steps: int


def train_locally(
    model: nn.Module, task: Task, examples: Examples, config: RunConfig, *, device: torch.device, seed: int
) -> TrainResult:
    """Train ``model`` in place for ``config.local_epochs`` epochs.

    The seed fixes shuffling and dropout; the global random state is left as it was.
    """
    model.to(device).train()
    optimizer = torch.optim.SGD(model.parameters(), lr=config.learning_rate, momentum=config.momentum)
    total_loss, seen, steps = 0.0, 0, 0
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        for _ in range(config.local_epochs):
            order = torch.randperm(len(examples))
            for start in range(0, len(examples), config.batch_size):
                batch = order[start : start + config.batch_size]
                inputs = examples.inputs[batch].to(device, non_blocking=True)
                targets = examples.targets[batch].to(device, non_blocking=True)
                optimizer.zero_grad()
                loss = task.loss(model(inputs), targets)
                loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                total_loss += loss.item() * len(batch)
                seen += len(batch)
                steps += 1
    return TrainResult(total_loss / seen if seen else 0.0, steps)
