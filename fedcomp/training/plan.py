"""Decides before training whether activations must be recomputed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from fedcomp.tasks.base import Examples, Task
from fedcomp.training.available import available_memory
from fedcomp.training.blocks import blocks
from fedcomp.training.memory import estimate
from fedcomp.training.options import TrainingOptions
from fedcomp.training.out_of_memory import advice, is_out_of_memory


@dataclass(frozen=True)
class MemoryPlan:
    """Whether activations are recomputed, and a line that says why; empty where nothing had to be decided."""

    checkpointing: bool
    note: str = ""


def plan_memory(
    model: nn.Module, task: Task, examples: Examples, options: TrainingOptions, *, device: torch.device
) -> MemoryPlan:
    """Decide for a model that is on ``device`` already, as ``training needs 9.1 GB, you have 8.0: …`` says.

    Numbers do not depend on it, so it may come out differently on each machine.
    """
    if options.activation_checkpointing != "auto":
        return MemoryPlan(options.activation_checkpointing == "on")
    free = available_memory(device)
    if free is None or not len(examples):
        return MemoryPlan(False)
    try:
        plain = estimate(model, task, examples, options)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        return MemoryPlan(True, "three examples do not fit into memory: activation checkpointing on")
    have = free + plain.parameters
    note = f"training needs {_gigabytes(plain.total)} GB, you have {_gigabytes(have)}"
    if plain.total <= have:
        return MemoryPlan(False, note)
    if not blocks(model):
        hints = advice(options, device, checkpointing=True)
        return MemoryPlan(False, f"{note}, and the model has no blocks to recompute; {hints}")
    less = estimate(model, task, examples, replace(options, activation_checkpointing="on"))
    note += ": activation checkpointing on"
    if less.total > have:
        hints = advice(options, device, checkpointing=True)
        note += f", which still needs {_gigabytes(less.total)}; {hints}"
    return MemoryPlan(True, note)


def _gigabytes(size: int) -> str:
    return "under 0.1" if size < 10**8 else f"{size / 1e9:.1f}"
