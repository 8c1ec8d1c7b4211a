"""A model vector as the tensors it is made of, and the trust ratio of a step on one of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from fedcomp.errors import VectorSpecError


@dataclass(frozen=True)
class Layers:
    """Where each tensor lies in a vector, and which are adapted.

    Attributes
    ----------
    shapes
        The tensors' shapes in order, as ``VectorSpec.shapes`` gives them.
    adapt_vectors
        Whether biases, BatchNorm's tensors and others with fewer than two dimensions get a trust ratio and weight
        decay. By default they do not, as in the usual implementations of LARS and LAMB: their norms say little.
    """

    shapes: tuple[tuple[int, ...], ...]
    adapt_vectors: bool = False

    @classmethod
    def of(cls, shapes: Sequence[tuple[int, ...]], *, adapt_vectors: bool) -> Layers:
        """Take shapes in any sequence."""
        return cls(tuple(tuple(shape) for shape in shapes), adapt_vectors)

    @property
    def dim(self) -> int:
        """Number of coordinates of the vector."""
        return sum(prod(shape) for shape in self.shapes)

    @property
    def adapted(self) -> list[bool]:
        """For each tensor whether it gets a trust ratio and weight decay."""
        return [self.adapt_vectors or len(shape) > 1 for shape in self.shapes]

    def split(self, vector: Tensor) -> list[Tensor]:
        """Map a vector of shape (dim,) to its tensors, 1-D views.

        Raises
        ------
        VectorSpecError
            When the vector has another shape.
        """
        if vector.shape != (self.dim,):
            raise VectorSpecError(f"vector has shape {tuple(vector.shape)}, these tensors need ({self.dim},)")
        return list(torch.split(vector, [prod(shape) for shape in self.shapes]))


def norm(x: Tensor) -> float:
    """Return ‖x‖, added up in float64 so that no square over- or underflows."""
    return float(torch.linalg.vector_norm(x, dtype=torch.float64))


def trust_ratio(weight_norm: float, update_norm: float) -> float:
    """Return ‖w‖/‖u‖, the length of a tensor in units of its update; 1 when either is zero."""
    return weight_norm / update_norm if weight_norm > 0 and update_norm > 0 else 1.0
