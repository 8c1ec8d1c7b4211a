"""What is timed: encoding, decoding and adding to a mean, whatever does it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor

from fedcomp.aggregation import MeanEstimator
from fedcomp.compressors.registry import compressor, decode

Payload = TypeVar("Payload")


class Coder(ABC, Generic[Payload]):
    """Encodes vectors of one dim on one device and takes them back."""

    @abstractmethod
    def encode(self, x: Tensor, seed: int) -> Payload:
        """Map a vector to what is sent."""

    @abstractmethod
    def decode(self, payload: Payload, seed: int) -> Tensor:
        """Map what was sent to the estimate."""

    @abstractmethod
    def add(self, payload: Payload, seed: int) -> None:
        """Decode and add to a sum in float64."""

    @abstractmethod
    def size(self, payload: Payload) -> int:
        """Return the bytes of what is sent."""


class SchemeCoder(Coder[bytes]):
    """A compressor and a MeanEstimator.

    Parameters
    ----------
    spec
        The compressor.
    dim, device
        Of the vectors.
    shapes
        What the compressor is told of the tensors' shapes.

    Raises
    ------
    ConfigError
        When the spec is wrong.
    """

    def __init__(self, spec: str, dim: int, device: torch.device, *, shapes: Sequence[tuple[int, ...]]) -> None:
        self._codec = compressor(spec)
        self._shapes, self._device = shapes, device
        self._estimator = MeanEstimator(dim, device=device)

    def encode(self, x: Tensor, seed: int) -> bytes:
        """Return the payload."""
        return self._codec.encode(x, seed=seed, shapes=self._shapes)

    def decode(self, payload: bytes, seed: int) -> Tensor:
        """Return the estimate."""
        return decode(payload, seed=seed, device=self._device)

    def add(self, payload: bytes, seed: int) -> None:
        """Add to the estimator with weight 1."""
        self._estimator.add(payload, weight=1.0, seed=seed)

    def size(self, payload: bytes) -> int:
        """Return the payload's length."""
        return len(payload)
