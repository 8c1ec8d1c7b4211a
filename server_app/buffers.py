"""The mean of a model's integer and bool tensors, which travel beside the compressed vector.

Integers: the weighted mean, rounded. Bools: the weighted majority. Both are accumulated as differences from the global
model, so that values far beyond 2^53 that all clients agree on stay exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedcomp.errors import DimMismatch


class RawMean:
    """Accumulates the raw tensors of accepted replies.

    Parameters
    ----------
    start
        The global model's raw tensors.
    """

    def __init__(self, start: Mapping[str, Tensor]) -> None:
        self._start = dict(start)
        self._sums = {name: torch.zeros(value.shape, dtype=torch.float64) for name, value in start.items()}
        self._weight = 0.0

    def check(self, raw: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Return ``raw`` when names, shapes and dtypes are the global model's.

        Raises
        ------
        DimMismatch
            Naming the tensor that differs.
        """
        if raw.keys() != self._start.keys():
            raise DimMismatch(f"raw tensors are {sorted(raw)}, this model has {sorted(self._start)}; align the task")
        for name, value in raw.items():
            expected = self._start[name]
            if value.shape != expected.shape or value.dtype != expected.dtype:
                raise DimMismatch(
                    f"raw tensor {name!r} is {value.dtype} {tuple(value.shape)}, this model has {expected.dtype} "
                    f"{tuple(expected.shape)}; align the task"
                )
        return raw

    def add(self, raw: Mapping[str, Tensor], *, weight: float) -> None:
        """Add tensors that passed ``check``."""
        for name, value in raw.items():
            start = self._start[name]
            difference = value.to(torch.int64) - start.to(torch.int64)
            self._sums[name] += weight * difference.double()
        self._weight += weight

    def result(self) -> dict[str, Tensor]:
        """Return the mean of what was added; the start values when nothing was."""
        if self._weight <= 0:
            return dict(self._start)
        means: dict[str, Tensor] = {}
        for name, start in self._start.items():
            step = torch.round(self._sums[name] / self._weight).to(torch.int64)
            means[name] = (start.to(torch.int64) + step).to(start.dtype)
        return means
