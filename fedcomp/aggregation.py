"""MeanEstimator: the weighted mean of decoded payloads, one at a time, in memory that does not grow with clients."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedcomp.compressors.registry import accumulate, decode
from fedcomp.errors import ConfigError, DimMismatch, EmptyMean, InvalidWeight, NonFinite
from fedcomp.wire import Buffer

MAX_WEIGHT = 2.0**53
"""Counts up to here are exact in float64; anything above is no number of examples."""

_CHUNK = 2**20


@dataclass(frozen=True)
class MeanEstimate:
    """What a MeanEstimator knows.

    Attributes
    ----------
    mean
        1-D float32 tensor of dim coordinates.
    weight
        Sum of the weights.
    clients
        Number of payloads added.
    bytes
        Sum of the payloads' lengths.
    """

    mean: Tensor
    weight: float
    clients: int
    bytes: int


class MeanEstimator:
    """Accumulate Σ w·x̂ and Σ w in float64.

    The mean of unbiased estimates is unbiased; with a seed for each client their errors average out. Memory: 8 bytes a
    coordinate for the sum, however many clients; ``eden`` adds to it block by block, other schemes decode one payload,
    4 bytes a coordinate.

    >>> import torch
    >>> from fedcomp import MeanEstimator, compressor
    >>> codec = compressor("identity")
    >>> estimator = MeanEstimator(2)
    >>> estimator.add(codec.encode(torch.tensor([1.0, 0.0]), seed=1), weight=3.0, seed=1)
    >>> estimator.add(codec.encode(torch.tensor([0.0, 1.0]), seed=2), weight=1.0, seed=2)
    >>> estimator.result().mean
    tensor([0.7500, 0.2500])
    """

    def __init__(self, dim: int, device: str | torch.device = "cpu") -> None:
        self.dim = dim
        self.device = torch.device(device)
        self._sum = torch.zeros(dim, dtype=torch.float64, device=self.device)
        self._weight = 0.0
        self._clients = 0
        self._bytes = 0

    def add(self, payload: Buffer, *, weight: float, seed: int, max_norm: float | None = None) -> None:
        """Decode one payload and add it with ``weight``.

        With ``max_norm`` its L2 norm is cut to at most that before it is weighted, so that no client moves the mean by
        more than its share of the weight times ``max_norm``. The mean is then biased, and a whole vector is decoded.

        Raises
        ------
        PayloadError
            The payload or its weight cannot be used; the estimator is left exactly as it was.
        ConfigError
            ``max_norm`` is not a positive number.
        """
        checked = check_weight(weight)
        size = len(memoryview(payload).cast("B"))
        if max_norm is not None:
            vector = decode(payload, seed=seed, device=self.device, expected_dim=self.dim)
            self.add_vector(vector, weight=checked, payload_bytes=size, max_norm=max_norm)
            return
        accumulate(payload, seed=seed, into=self._sum, weight=checked)
        self._count(checked, size)

    def add_vector(
        self, vector: Tensor, *, weight: float, payload_bytes: int = 0, max_norm: float | None = None
    ) -> None:
        """Add a vector that was already decoded, for callers that look at it too; the same bits as ``add``.

        Parameters
        ----------
        vector
            1-D float tensor of dim coordinates, on any device; taken as float32.
        weight
            As in ``add``.
        payload_bytes
            Length of the payload it came from, for ``result().bytes``.
        max_norm
            As in ``add``.

        Raises
        ------
        DimMismatch, NonFinite, InvalidWeight
            The vector or its weight cannot be used; the estimator is left exactly as it was.
        ConfigError
            ``max_norm`` is not a positive number.
        """
        checked = check_weight(weight)
        if max_norm is not None and not (math.isfinite(max_norm) and max_norm > 0):
            raise ConfigError(f"max_norm is {max_norm}; allowed: finite numbers above 0, or None for no limit")
        if vector.shape != (self.dim,):
            raise DimMismatch(f"the vector has shape {tuple(vector.shape)}, expected are {self.dim} coordinates")
        taken = vector.detach().to(self.device, torch.float32)
        norm = l2_norm(taken)
        if not math.isfinite(norm):
            raise NonFinite("the vector holds a NaN or an infinity; reject its sender")
        scale = 1.0 if max_norm is None or norm <= max_norm else max_norm / norm
        self._sum.add_(taken, alpha=checked * scale)
        self._count(checked, payload_bytes)

    def _count(self, weight: float, payload_bytes: int) -> None:
        self._weight += weight
        self._clients += 1
        self._bytes += payload_bytes

    def merge(self, other: MeanEstimator) -> None:
        """Add all that ``other`` has accumulated; ``other`` is unchanged.

        Raises
        ------
        DimMismatch
            When the dims differ.
        """
        if other.dim != self.dim:
            raise DimMismatch(f"the other estimator has dim {other.dim}, this one {self.dim}; merge equal dims")
        self._sum.add_(other._sum.to(self.device))
        self._weight += other._weight
        self._clients += other._clients
        self._bytes += other._bytes

    def result(self) -> MeanEstimate:
        """Return the mean so far; the estimator can go on.

        Raises
        ------
        EmptyMean
            When nothing, or only weight 0, was added.
        NonFinite
            When the sum left float32's range.
        """
        if self._weight <= 0:
            raise EmptyMean(f"{self._clients} payloads of weight 0 in all were added; a mean needs a positive weight")
        mean = torch.empty(self.dim, dtype=torch.float32, device=self.device)
        # Some at a time: a float64 quotient of all would be as large as the sum.
        for start in range(0, self.dim, _CHUNK):
            part = mean[start : start + _CHUNK]
            part.copy_(self._sum[start : start + _CHUNK] / self._weight)
            if not bool(torch.isfinite(part).all()):
                raise NonFinite("the mean left float32's range; check the clients' updates")
        return MeanEstimate(mean, self._weight, self._clients, self._bytes)


def l2_norm(vector: Tensor) -> float:
    """Return ‖vector‖ of a 1-D float32 vector, exact to float64; NaN or infinite when a coordinate is.

    Squares are taken in float64, where those of 1e-42 and 1e25 are ordinary numbers, some coordinates at a time.
    """
    total = 0.0
    for start in range(0, vector.numel(), _CHUNK):
        part = vector[start : start + _CHUNK].detach().double()
        total += float(torch.dot(part, part))
    return math.sqrt(total)


def check_weight(weight: float) -> float:
    """Return the weight as a float.

    Raises
    ------
    InvalidWeight
        When it is not a number in [0, 2**53].
    """
    if isinstance(weight, bool) or not isinstance(weight, int | float | np.integer | np.floating):
        raise InvalidWeight(f"weight is {weight!r}, a {type(weight).__name__}; give a number of examples")
    number = float(weight)
    if not (math.isfinite(number) and 0 <= number <= MAX_WEIGHT):
        raise InvalidWeight(f"weight is {weight}; allowed: finite numbers from 0 to 2**53")
    return number
