"""Which parts of a model are recomputed as one: its blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

Runner = Callable[[Sequence[nn.Module], Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Called for each block's forward pass with its modules, the function that computes it, and the arguments."""

_LISTS = (nn.Sequential, nn.ModuleList)
_FEWEST_LAYERS = 4


def blocks(model: nn.Module) -> list[nn.Module]:
    """Return the modules that are recomputed as one, or in parts.

    A block is a member of an ``nn.ModuleList`` or ``nn.Sequential`` that has submodules itself, such as each layer of a
    transformer encoder or each residual block; lists in lists are looked into, blocks in blocks are not. An
    ``nn.Sequential`` of four or more plain layers counts as well: it is cut into about √n parts, the last of which is
    not recomputed. A model without such lists has none, and then recomputing saves nothing.
    """
    if isinstance(model, _LISTS):
        members = list(model)
        if _is_chain(model):
            return [model]
        return [
            block
            for member in members
            if any(True for _ in member.children())
            for block in (blocks(member) if isinstance(member, _LISTS) else [member])
        ]
    return [block for child in model.children() for block in blocks(child)]


@contextmanager
def each_block(model: nn.Module, runner: Runner) -> Iterator[None]:
    """Let ``runner`` carry out the forward pass of each block meanwhile."""
    with ExitStack() as undo:
        for block in blocks(model):
            forward = _in_parts(block, runner) if _is_chain(block) else _whole(block, runner)
            # An attribute of the instance comes before its class's method; names and state stay as they are.
            undo.callback(_set_forward, block, block.__dict__.get("forward"))
            _set_forward(block, forward)
        yield


def _whole(block: nn.Module, runner: Runner) -> Callable[..., Any]:
    original = block.forward
    return lambda *inputs, **named: runner([block], original, inputs, named)


def _in_parts(chain: nn.Module, runner: Runner) -> Callable[..., Any]:
    parts = _parts(list(chain.children()))

    def forward(value: Any) -> Any:
        for part in parts[:-1]:
            value = runner(part, nn.Sequential(*part).forward, (value,), {})
        return nn.Sequential(*parts[-1])(value)

    return forward


def _parts(layers: Sequence[nn.Module]) -> list[list[nn.Module]]:
    length = math.isqrt(len(layers))
    parts: list[list[nn.Module]] = [[]]
    for layer in layers:
        # A layer that overwrites its input would destroy what its part is recomputed from.
        if len(parts[-1]) >= length and not getattr(layer, "inplace", False):
            parts.append([])
        parts[-1].append(layer)
    return parts


def _is_chain(module: nn.Module) -> bool:
    members = list(module.children())
    return (
        type(module) is nn.Sequential
        and len(members) >= _FEWEST_LAYERS
        and not any(True for member in members for _ in member.children())
    )


def _set_forward(module: nn.Module, forward: Callable[..., Any] | None) -> None:
    if forward is None:
        module.__dict__.pop("forward", None)
    else:
        module.__dict__["forward"] = forward
