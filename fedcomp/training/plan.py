"""Decides before training whether activations must be recomputed, and how much of a batch is worked on at once."""

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
    """What follows from the memory there is.

    Attributes
    ----------
    checkpointing
        Whether activations are recomputed.
    note
        A line that says why; empty where nothing had to be decided.
    micro_batch_size
        With how many examples at once to begin; 0 = as the options say.
    """

    checkpointing: bool
    note: str = ""
    micro_batch_size: int = 0


def plan_memory(
    model: nn.Module, task: Task, examples: Examples, options: TrainingOptions, *, device: torch.device
) -> MemoryPlan:
    """Decide for a model that is on ``device`` already, as ``training needs 9.1 GB, you have 8.0: …`` says.

    It may come out differently on each machine. Numbers do not depend on what is recomputed, and on the size of
    micro-batches only as :class:`~fedcomp.training.batches.BatchGradient` says.
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
    recompute = bool(blocks(model))
    least, chosen, did = plain, options, f"{note}, and the model has no blocks to recompute"
    if recompute:
        chosen = replace(options, activation_checkpointing="on")
        least, did = estimate(model, task, examples, chosen), f"{note}: activation checkpointing on"
        if least.total <= have:
            return MemoryPlan(True, did)
        did += f", which still needs {_gigabytes(least.total)}"
    size = 0 if options.micro_batch_size else _largest_that_fits(model, task, examples, chosen, have)
    if size:
        return MemoryPlan(recompute, f"{did}: micro-batches of {size}", size)
    return MemoryPlan(recompute, f"{did}; {advice(options, device, checkpointing=True)}")


def _largest_that_fits(model: nn.Module, task: Task, examples: Examples, options: TrainingOptions, have: int) -> int:
    """Return the micro-batch that halving would come to; 0 when even one example is too much by the estimate."""
    size = min(options.examples_at_once, len(examples)) // 2
    while size and estimate(model, task, examples, replace(options, micro_batch_size=size)).total > have:
        size //= 2
    return size


def _gigabytes(size: int) -> str:
    return "under 0.1" if size < 10**8 else f"{size / 1e9:.1f}"
