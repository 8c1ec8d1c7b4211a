"""Knows an exhausted memory by torch's errors, and what to switch on then."""

from __future__ import annotations

import torch

from fedcomp.training.options import TrainingOptions

_OF_THE_CPU = ("not enough memory", "can't allocate memory")


def is_out_of_memory(error: RuntimeError) -> bool:
    """Tell whether a GPU's or the CPU's allocator failed; Linux often ends the process instead."""
    return isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in _OF_THE_CPU)


def advice(options: TrainingOptions, device: torch.device, *, checkpointing: bool) -> str:
    """Name what saves memory and is not in use yet."""
    ways = []
    if options.micro_batch_size > 1:
        ways.append("micro-batch-size = 0 (automatic)")
    if not checkpointing:
        ways.append("activation-checkpointing = on")
    if device.type == "cuda" and not options.offload_activations:
        ways.append("offload-activations = true")
    if options.precision == "float32":
        ways.append("precision = bfloat16")
    if options.optimizer in ("adam", "adamw"):
        ways.append("optimizer = adamw8bit or sgd")
    return "switch on: " + ", ".join(ways) if ways else "take a smaller model or a larger device"
