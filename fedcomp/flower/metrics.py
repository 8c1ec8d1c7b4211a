"""The weighted mean of the metrics of replies, formed as they come in."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from flwr.app import MetricRecord, RecordDict

from fedcomp.aggregation import check_weight
from fedcomp.errors import InvalidWeight
from fedcomp.flower.messages import MalformedMessage

log = logging.getLogger("flwr.fedcomp")

Metric = int | float | list[int] | list[float]


class MetricMean:
    """Accumulates Σ w·metric; each metric's list length is part of what it is.

    Parameters
    ----------
    weight_key
        The metric that is the weight, and no part of the mean.
    """

    def __init__(self, weight_key: str) -> None:
        self._weight_key = weight_key
        self._sums: dict[tuple[str, int | None], np.ndarray[tuple[int, ...], np.dtype[np.float64]]] = {}
        self._counts: dict[tuple[str, int | None], int] = {}
        self._clients = 0
        self._weight = 0.0

    def add(self, metrics: Mapping[str, Metric], *, weight: float) -> None:
        """Add one client's metrics."""
        for name, value in metrics.items():
            if name == self._weight_key:
                continue
            key = (name, len(value) if isinstance(value, list) else None)
            self._sums[key] = self._sums.get(key, np.zeros(())) + weight * np.asarray(value, dtype=np.float64)
            self._counts[key] = self._counts.get(key, 0) + 1
        self._clients += 1
        self._weight += weight

    def result(self) -> MetricRecord:
        """Return the means and the total weight; what not all clients sent is left out, and logged."""
        means = MetricRecord({self._weight_key: self._weight})
        for (name, length), total in self._sums.items():
            if self._counts[name, length] == self._clients:
                mean = total / self._weight
                means[name] = float(mean) if length is None else [float(item) for item in mean]
            else:
                log.warning(
                    "metric %r came from %d of %d clients in this form, it is left out",
                    name,
                    self._counts[name, length],
                    self._clients,
                )
        return means


def only_metric_record(content: RecordDict) -> MetricRecord:
    """Return the content's MetricRecord; raises MalformedMessage unless it has exactly one."""
    records = list(content.metric_records.values())
    if len(records) != 1:
        raise MalformedMessage(f"reply holds {len(records)} MetricRecords, it must hold one, with the client's weight")
    return records[0]


def read_weight(metrics: MetricRecord, key: str) -> float:
    """Return a client's weight.

    Raises
    ------
    InvalidWeight
        When it is missing or not a number from 0 to 2**53.
    """
    if key not in metrics:
        raise InvalidWeight(f"reply has no metric {key!r}, the strategy's weighted_by_key; it has {sorted(metrics)}")
    value = metrics[key]
    if isinstance(value, list):
        raise InvalidWeight(f"metric {key!r} is a list of {len(value)}; the weight must be one number")
    return check_weight(value)
