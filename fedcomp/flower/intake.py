"""What becomes of the replies to train messages: one mean, formed as they come in, or all of them decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from flwr.app import Array, Message, RecordDict

from fedcomp.aggregation import MeanEstimator
from fedcomp.compressors.registry import decode
from fedcomp.errors import EmptyMean
from fedcomp.flower.arrays import Values, moved, read_raw
from fedcomp.flower.metrics import MetricMean, only_metric_record, read_weight
from fedcomp.flower.update import EncodedArrays, with_arrays
from fedcomp.vectors import VectorSpec


@dataclass(frozen=True)
class Asked:
    """One train message on its way.

    Attributes
    ----------
    message
        It.
    position
        Its place among the round's compressed messages, from 0.
    seed
        What its reply is to be encoded with.
    arrays, layout
        The arrays it carries, and their layout.
    """

    message: Message
    position: int
    seed: int
    arrays: Mapping[str, Array]
    layout: VectorSpec


class Intake(Protocol):
    """Takes replies one at a time."""

    def take(self, asked: Asked, encoded: EncodedArrays, reply: Message) -> None:
        """Use one reply; raises FedcompError, and is then as it was, when it cannot be used."""

    def results(self) -> list[Message]:
        """Return what the strategy is given; raises FedcompError when the replies taken cannot be used together."""


class MeanIntake:
    """Adds each reply to a mean and forgets it; memory does not grow with the clients.

    Float arrays: received plus the mean difference, in their dtype of the first round. Integer and bool arrays: the
    mean as float64, which is what Flower's strategies make of them.

    Parameters
    ----------
    weight_key
        The metric that holds a reply's weight.
    asked
        Any of the round's messages; all carry the same arrays.
    """

    def __init__(self, weight_key: str, asked: Asked) -> None:
        self._weight_key = weight_key
        self._asked = asked
        self._mean = MeanEstimator(asked.layout.dim)
        self._raw = {entry.name: np.zeros(entry.shape, dtype=np.float64) for entry in asked.layout.raws}
        self._metrics = MetricMean(weight_key)

    def take(self, asked: Asked, encoded: EncodedArrays, reply: Message) -> None:
        """Add one reply."""
        metrics = only_metric_record(reply.content)
        weight = read_weight(metrics, self._weight_key)
        raw = read_raw(asked.layout, encoded.raw)
        self._mean.add(encoded.payload, weight=weight, seed=asked.seed)
        for name, values in raw.items():
            self._raw[name] += weight * values.astype(np.float64)
        self._metrics.add(metrics, weight=weight)

    def results(self) -> list[Message]:
        """Return one reply that holds mean arrays, total weight and mean metrics; raises EmptyMean, NonFinite."""
        estimate = self._mean.result()
        raw: dict[str, Values] = {name: total / estimate.weight for name, total in self._raw.items()}
        arrays = moved(self._asked.layout, self._asked.arrays, estimate.mean, raw, whole=False)
        content = RecordDict({"arrays": arrays, "metrics": self._metrics.result()})
        return [Message(content, reply_to=self._asked.message)]


class DecodedIntake:
    """Decodes each reply and keeps it: what a strategy needs that looks at single clients.

    Parameters
    ----------
    weight_key
        The metric that holds a reply's weight; None when the strategy has none.
    """

    def __init__(self, weight_key: str | None) -> None:
        self._weight_key = weight_key
        self._replies: list[Message] = []
        self._weights: list[float] = []

    def take(self, asked: Asked, encoded: EncodedArrays, reply: Message) -> None:
        """Put arrays of the received dtypes in the payload's place."""
        weight = self._weight(reply.content)
        raw = read_raw(asked.layout, encoded.raw)
        vector = decode(encoded.payload, seed=asked.seed, expected_dim=asked.layout.dim)
        reply.content = with_arrays(reply.content, moved(asked.layout, asked.arrays, vector, raw))
        self._replies.append(reply)
        if weight is not None:
            self._weights.append(weight)

    def results(self) -> list[Message]:
        """Return the decoded replies; raises EmptyMean when all weights are zero, by whose sum Flower divides."""
        if self._replies and len(self._weights) == len(self._replies) and sum(self._weights) == 0:
            raise EmptyMean(f"the weights of all {len(self._replies)} replies are 0; a mean needs a positive weight")
        return self._replies

    def _weight(self, content: RecordDict) -> float | None:
        # A strategy of one's own need not have weights; one that does says itself where they are missing.
        records = list(content.metric_records.values())
        if self._weight_key is None or len(records) != 1 or self._weight_key not in records[0]:
            return None
        return read_weight(records[0], self._weight_key)
