"""Characters that simulated writers draw, which need no download: the default data of the task ``emnist``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

import numpy as np
import torch

from fedcomp import home
from fedcomp.tasks import glyphs, writers
from fedcomp.tasks.base import Examples
from fedcomp.tasks.cache import Labelled, load_or_make
from fedcomp.tasks.numbers import count, partition_number, positive

LABEL = "synthetic characters drawn from fonts by simulated writers (62 classes): this is not EMNIST"


class SyntheticCharacters:
    """Characters of 62 classes by simulated writers; every client owns some writers, the test set has others.

    A client's examples depend on its partition id and the seed, never on how many clients there are. They are
    generated once and kept under ``FEDCOMP_HOME/cache/glyphs``. The arguments are those of
    :class:`fedcomp.tasks.emnist.EmnistTask`.
    """

    label = LABEL

    def __init__(
        self,
        *,
        examples_per_client: int = 1000,
        writers_per_client: int = 10,
        dirichlet_alpha: float = 0.3,
        test_examples: int = 2000,
        test_writers: int = 40,
    ) -> None:
        self._examples_per_client = count("emnist", "examples-per-client", examples_per_client, least=1)
        self._writers_per_client = count("emnist", "writers-per-client", writers_per_client, least=1)
        self._alpha = positive("emnist", "dirichlet-alpha", dirichlet_alpha)
        self._test_examples = count("emnist", "test-examples", test_examples, least=1)
        self._test_writers = count("emnist", "test-writers", test_writers, least=1)

    def client_writers(self, partition_id: int, num_partitions: int) -> list[str]:
        """Return the names of one client's writers; raises ConfigError unless 0 <= partition_id < num_partitions."""
        partition_number("emnist", partition_id, num_partitions)
        first = partition_id * self._writers_per_client
        return [f"train-{number}" for number in range(first, first + self._writers_per_client)]

    def test_writers(self) -> list[str]:
        """Return the names of the test set's writers."""
        return [f"test-{number}" for number in range(self._test_writers)]

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        """Return one client's examples; raises ConfigError unless 0 <= partition_id < num_partitions."""
        names = self.client_writers(partition_id, num_partitions)
        return _examples(names, self._examples_per_client, seed=seed, alpha=self._alpha)

    def test_examples(self, *, seed: int) -> Examples:
        """Return the test set; every class is about equally frequent."""
        return _examples(self.test_writers(), self._test_examples, seed=seed, alpha=None)


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
