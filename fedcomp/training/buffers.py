"""A model's buffers, such as BatchNorm's running statistics, when a forward pass must not count twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

Buffers = list[tuple[nn.Module, str, Tensor]]
"""Which module, under which name, and the value."""


def copy_buffers(modules: Iterable[nn.Module]) -> Buffers:
    """Return copies of all buffers of some modules and of what is in them."""
    return [(owner, name, buffer.clone()) for owner, name, buffer in _buffers(modules)]


def restore_buffers(copies: Buffers) -> None:
    """Write copies back into the buffers they were taken from."""
    with torch.no_grad():
        for owner, name, value in copies:
            owner.get_buffer(name).copy_(value)


@contextmanager
def lent_buffers(copies: Buffers) -> Iterator[None]:
    """Let modules work on copies of their buffers meanwhile; what they write there is lost."""
    originals = [(owner, name, owner.get_buffer(name)) for owner, name, _ in copies]
    try:
        for owner, name, value in copies:
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in originals:
            setattr(owner, name, value)


def _buffers(modules: Iterable[nn.Module]) -> Iterator[tuple[nn.Module, str, Tensor]]:
    for module in modules:
        for owner in module.modules():
            for name, buffer in owner.named_buffers(recurse=False):
                yield owner, name, buffer
