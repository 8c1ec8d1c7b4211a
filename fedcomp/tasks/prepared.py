"""A prepared data set and a way to deal it out: the rows of each client and of the test set."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcomp.data import partition as deal
from fedcomp.data.dataset import Dataset, Split
from fedcomp.errors import ConfigError
from fedcomp.seeds import permutation
from fedcomp.tasks.numbers import count, partition_number, positive

Rows = tuple[NDArray[Any], NDArray[Any]]
"""Inputs and targets, of equal length, in memory."""

_ALPHA = 0.3


class PreparedExamples:
    """Examples of a data set, a part for each client; only the rows that are asked for are read.

    Which rows a client has depends on the data, the options, the seed and the number of partitions alone.

    Parameters
    ----------
    dataset
        The data set, opened.
    partition
        ``natural``: whole owners, ``iid``: at random, ``dirichlet``: skewed classes, ``size``: at random in parts of
        unequal size. None: ``natural`` where the owners are known, else ``dirichlet``. The classes are the targets,
        which must be of shape (n,) for ``dirichlet``.
    dirichlet_alpha
        Of ``dirichlet`` only: small is skewed; None: 0.3.
    examples_per_client
        The most examples of a client, a seeded sample of its part; 0 takes all.
    test_examples
        The most test examples, a seeded sample; 0 takes all.

    Raises
    ------
    ConfigError
        When an option has no allowed value, or does not apply to these data.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        partition: str | None = None,
        dirichlet_alpha: float | None = None,
        examples_per_client: int = 0,
        test_examples: int = 0,
    ) -> None:
        self._task = dataset.kind
        self._dataset = dataset
        owners = len(dataset.train.clients)
        self._method = ("natural" if owners else "dirichlet") if partition is None else partition
        if self._method not in deal.METHODS:
            raise ConfigError(f"{self._task}: partition = {partition!r}; allowed: {', '.join(deal.METHODS)}")
        if self._method == "natural" and not owners:
            raise ConfigError(
                f"{self._task}: partition = 'natural', but these data do not say who wrote what ({dataset.label}); "
                "use dirichlet, iid or size"
            )
        if dirichlet_alpha is not None and self._method != "dirichlet":
            raise ConfigError(
                f"{self._task}: dirichlet-alpha = {dirichlet_alpha!r} applies to partition=dirichlet, "
                f"this is partition={self._method}; leave it out"
            )
        self._alpha = positive(self._task, "dirichlet-alpha", _ALPHA if dirichlet_alpha is None else dirichlet_alpha)
        self._cap = count(self._task, "examples-per-client", examples_per_client, least=0)
        self._test_cap = count(self._task, "test-examples", test_examples, least=0)

    @property
    def label(self) -> str:
        """The data set's label and the first digits of its digest, one line."""
        return f"{self._dataset.label} [data {self._dataset.digest[:8]}]"

    def client_rows(self, partition_id: int, num_partitions: int, *, seed: int) -> Rows:
        """Return one client's inputs and targets, perhaps none.

        Raises
        ------
        ConfigError
            Unless ``0 <= partition_id < num_partitions``, or when ``natural`` has fewer owners than partitions.
        """
        partition_number(self._task, partition_id, num_partitions)
        rows = self._partitions(num_partitions, seed=seed)[partition_id]
        return _read(self._dataset.train, _sample(rows, self._cap, seed=seed, purpose=f"client {partition_id}"))

    def test_rows(self, *, seed: int) -> Rows:
        """Return the test set's inputs and targets."""
        rows = np.arange(len(self._dataset.test))
        return _read(self._dataset.test, _sample(rows, self._test_cap, seed=seed, purpose="test"))

    def _partitions(self, num_partitions: int, *, seed: int) -> deal.Partitions:
        train = self._dataset.train
        if self._method == "natural":
            return deal.natural(train.offsets, num_partitions, seed=seed)
        if self._method == "dirichlet":
            return deal.dirichlet(train.arrays["targets"], num_partitions, alpha=self._alpha, seed=seed)
        if self._method == "iid":
            return deal.iid(len(train), num_partitions, seed=seed)
        return deal.by_size(len(train), num_partitions, seed=seed)


def _read(split: Split, rows: NDArray[np.int64]) -> Rows:
    return np.array(split.arrays["inputs"][rows]), np.array(split.arrays["targets"][rows])


def _sample(rows: NDArray[np.int64], most: int, *, seed: int, purpose: str) -> NDArray[np.int64]:
    if not most or len(rows) <= most:
        return rows
    digest = hashlib.blake2b(f"fedcomp sample/{seed}/{purpose}".encode(), digest_size=8).digest()
    chosen = permutation(int.from_bytes(digest, "big"), len(rows))[:most]
    return rows[np.sort(chosen)]
