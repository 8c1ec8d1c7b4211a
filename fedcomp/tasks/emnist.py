"""The task ``emnist``: the EMNIST CNN on synthetic characters, which need no download."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from fedcomp import home
from fedcomp.errors import ConfigError
from fedcomp.tasks import glyphs, writers
from fedcomp.tasks.base import Examples, Task
from fedcomp.tasks.cache import Labelled, load_or_make
from fedcomp.tasks.emnist_model import EmnistCnn

_MOST = 1_000_000


class EmnistTask(Task):
    """Characters of 62 classes by simulated writers; every client owns some writers, the test set has others.

    A client's examples depend on its partition id and the seed, never on how many clients there are. They are
    generated once and kept under ``FEDCOMP_HOME/cache/glyphs``.

    Parameters
    ----------
    examples_per_client
        Training examples of each client, spread evenly over its writers.
    writers_per_client
        Writers that belong to each client and to no other.
    dirichlet_alpha
        Concentration of the Dirichlet distribution of each training writer's classes; small is skewed.
    test_examples
        Size of the test set, spread evenly over its writers; every class is about equally frequent.
    test_writers
        Writers of the test set; no client ever has one of them.

    Raises
    ------
    ConfigError
        When a count is not an integer from 1 to a million or alpha is not a positive number.
    """

    name = "emnist"
    data_label = "synthetic characters drawn from fonts by simulated writers (62 classes): this is not EMNIST"

    def __init__(
        self,
        *,
        examples_per_client: int = 1000,
        writers_per_client: int = 10,
        dirichlet_alpha: float = 0.3,
        test_examples: int = 2000,
        test_writers: int = 40,
    ) -> None:
        self._examples_per_client = _count("examples-per-client", examples_per_client)
        self._writers_per_client = _count("writers-per-client", writers_per_client)
        self._alpha = _positive("dirichlet-alpha", dirichlet_alpha)
        self._test_examples = _count("test-examples", test_examples)
        self._test_writers = _count("test-writers", test_writers)

    def build_model(self, *, seed: int) -> nn.Module:
        """Return the EMNIST CNN, 1,206,590 parameters: (n, 1, 28, 28) to logits (n, 62)."""
        return EmnistCnn(seed=seed)

    def client_writers(self, partition_id: int, num_partitions: int) -> list[str]:
        """Return the names of one client's writers.

        Raises
        ------
        ConfigError
            Unless ``0 <= partition_id < num_partitions``.
        """
        if not 0 <= partition_id < num_partitions:
            raise ConfigError(
                f"emnist: partition-id {partition_id} of {num_partitions} partitions; give 0 to num-partitions - 1"
            )
        first = partition_id * self._writers_per_client
        return [f"train-{number}" for number in range(first, first + self._writers_per_client)]

    def test_writers(self) -> list[str]:
        """Return the names of the test set's writers."""
        return [f"test-{number}" for number in range(self._test_writers)]

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        """Return one client's examples: float32 inputs (n, 1, 28, 28) in [0, 1], ink 1; int64 targets (n,), 0 to 61.

        Raises
        ------
        ConfigError
            Unless ``0 <= partition_id < num_partitions``.
        """
        names = self.client_writers(partition_id, num_partitions)
        return _examples(names, self._examples_per_client, seed=seed, alpha=self._alpha)

    def test_examples(self, *, seed: int) -> Examples:
        """Return the test set, in the form of :meth:`client_examples`; its classes are about equally frequent."""
        return _examples(self.test_writers(), self._test_examples, seed=seed, alpha=None)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy of logits (n, 62) and targets (n,), a 0-d tensor."""
        return functional.cross_entropy(outputs, targets)


def _examples(names: Sequence[str], examples: int, *, seed: int, alpha: float | None) -> Examples:
    key = {
        "generator": writers.GENERATOR_VERSION,
        "versions": glyphs.versions(),
        "writers": list(names),
        "examples": examples,
        "seed": seed,
        "alpha": alpha,
    }
    digest = hashlib.blake2b(json.dumps(key, sort_keys=True).encode(), digest_size=16).hexdigest()
    path = home.cache_dir("glyphs") / f"{digest}.arrays"
    images, labels = load_or_make(path, lambda: _write_all(names, examples, seed=seed, alpha=alpha))
    return Examples(torch.from_numpy(images).unsqueeze(1).float() / 255.0, torch.from_numpy(labels))


def _write_all(names: Sequence[str], examples: int, *, seed: int, alpha: float | None) -> Labelled:
    share, extra = divmod(examples, len(names))
    counts = [share + (position < extra) for position in range(len(names))]
    parts = [writers.write(name, n, seed=seed, alpha=alpha) for name, n in zip(names, counts, strict=True)]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    # Any first part of the examples then shows every writer.
    order = writers.stream(seed, f"order of {names[0]}").permutation(examples)
    return images[order], labels[order]


def _count(key: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
        raise ConfigError(f"emnist: {key} = {value!r}; give an integer from 1 to {_MOST}")
    return value


def _positive(key: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not (math.isfinite(value) and value > 0):
        raise ConfigError(f"emnist: {key} = {value!r}; give a positive number")
    return float(value)
