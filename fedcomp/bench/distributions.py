"""The vectors that compressors are compared on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from fedcomp.errors import ConfigError


def _normal(dim: int, generator: torch.Generator) -> Tensor:
    return torch.randn(dim, generator=generator)


def _shifted(dim: int, generator: torch.Generator) -> Tensor:
    return 1 + 0.1 * torch.randn(dim, generator=generator)


def _lognormal(dim: int, generator: torch.Generator) -> Tensor:
    return torch.randn(dim, generator=generator).exp()


def _sparse(dim: int, generator: torch.Generator) -> Tensor:
    vector = torch.zeros(dim)
    count = min(dim, 3)
    vector[torch.randperm(dim, generator=generator)[:count]] = torch.tensor([3.0, 1.0, 1.0])[:count]
    return vector


DISTRIBUTIONS: dict[str, Callable[[int, torch.Generator], Tensor]] = {
    "normal": _normal,
    "shifted": _shifted,
    "lognormal": _lognormal,
    "sparse": _sparse,
}
"""Name to generator: N(0,1), N(1, 0.1), LogNormal(0,1), three non-zeros (3, 1, 1) at random places."""


def draw(distribution: str, dim: int, *, seed: int) -> Tensor:
    """Return one vector of ``dim`` coordinates; the same arguments give the same vector.

    Raises
    ------
    ConfigError
        When the distribution is unknown.
    """
    if distribution not in DISTRIBUTIONS:
        raise ConfigError(f"dist is {distribution!r}; allowed: {', '.join(DISTRIBUTIONS)}")
    return DISTRIBUTIONS[distribution](dim, torch.Generator().manual_seed(seed))


def square_shapes(dim: int) -> list[tuple[int, ...]]:
    """Return the shapes that a drawn vector is taken for: a nearly square matrix, and a vector of what is left."""
    side = math.isqrt(dim)
    columns = dim // side if side else 0
    return [(side, columns), (dim - side * columns,)]


@dataclass(frozen=True)
class SavedUpdate:
    """A client update from a file.

    Attributes
    ----------
    vector
        All float tensors, one after the other.
    shapes
        Their shapes.
    """

    vector: Tensor
    shapes: list[tuple[int, ...]]


def load_update(path: Path) -> SavedUpdate:
    """Return the float tensors of a safetensors file as one vector, in the file's order.

    Raises
    ------
    ConfigError
        When the file cannot be read or holds no float tensor.
    """
    try:
        tensors = [value.float() for value in load_file(path).values() if value.is_floating_point()]
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"--update {path}: {error}; give a safetensors file") from error
    if not tensors:
        raise ConfigError(f"--update {path} holds no float tensor")
    return SavedUpdate(torch.cat([value.reshape(-1) for value in tensors]), [tuple(value.shape) for value in tensors])
