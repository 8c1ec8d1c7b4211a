"""How far the mean estimate is from the mean, where clients also send what they encoded."""

from __future__ import annotations

import torch

import fedcomp
from fedcomp.aggregation import MeanEstimator, l2_norm
from fedcomp.errors import EmptyMean, PayloadError


class ErrorMeter:
    """NMSE of one round's mean estimate: ‖mean x̂ − mean x‖² / mean ‖x‖², all means weighted alike.

    x are the client updates as trained, before error feedback adds anything and before the server clips. The means take
    two vectors of float64; no update is kept.

    Parameters
    ----------
    dim
        Number of coordinates.
    """

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._exact = MeanEstimator(dim)
        self._energy = 0.0
        self._complete = True

    def add(self, exact: bytes, *, weight: float, seed: int) -> None:
        """Add one client's update, an ``identity`` payload; without a usable one the round has no NMSE."""
        try:
            update = fedcomp.decode(exact, seed=seed, expected_dim=self._dim)
            self._exact.add_vector(update, weight=weight, payload_bytes=len(exact))
        except PayloadError:
            self._complete = False
            return
        self._energy += weight * l2_norm(update) ** 2

    def nmse(self, estimate: torch.Tensor) -> float | None:
        """Return the NMSE of ``estimate``; None when an update was missing, or all were zero."""
        try:
            mean = self._exact.result()
        except EmptyMean:
            return None
        if not self._complete or not self._energy:
            return None
        return l2_norm(estimate.double() - mean.mean.double()) ** 2 / (self._energy / mean.weight)
