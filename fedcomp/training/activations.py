"""Less memory for activations, the same numbers: compute them again, or keep them in the host's memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from fedcomp.training.blocks import each_block
from fedcomp.training.buffers import copy_buffers, lent_buffers


def checkpointed(model: nn.Module, enabled: bool) -> AbstractContextManager[None]:
    """Keep only the inputs of the model's blocks and compute the rest again in the backward pass.

    Which parts those are: :func:`fedcomp.training.blocks.blocks`. The second pass repeats dropout and runs on copies of
    the buffers, so that no number changes and BatchNorm counts each batch once. Costs up to one more forward pass.
    Source: Chen et al., Training deep nets with sublinear memory cost, 2016; ``torch.utils.checkpoint``.
    """
    return each_block(model, _recomputed) if enabled else nullcontext()


def offloaded(enabled: bool, device: torch.device) -> AbstractContextManager[object]:
    """Keep what a forward pass saves for its backward pass in the host's memory; without a GPU that changes nothing."""
    return torch.autograd.graph.save_on_cpu(pin_memory=device.type == "cuda") if enabled else nullcontext()


def _recomputed(
    modules: Sequence[nn.Module], forward: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), lent_buffers(copy_buffers(modules))

    return checkpoint(forward, *inputs, use_reentrant=False, context_fn=contexts, **named)
