"""The task ``emnist``: characters of 62 classes, synthetic ones by default, EMNIST or FEMNIST when it was prepared."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedcomp.data.dataset import open_dataset
from fedcomp.data.names import data_folder
from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Examples, Task
from fedcomp.tasks.emnist_model import EmnistCnn
from fedcomp.tasks.emnist_model_1m import EmnistCnn1M
from fedcomp.tasks.prepared import PreparedExamples, Rows
from fedcomp.tasks.synthetic_characters import LABEL, SyntheticCharacters

SYNTHETIC = "synthetic"
MODELS: Mapping[str, type[EmnistCnn | EmnistCnn1M]] = {"cnn": EmnistCnn, "1m": EmnistCnn1M}


class EmnistTask(Task):
    """Characters of 62 classes (0-9, A-Z, a-z) as images of 28×28 pixels.

    Parameters
    ----------
    data
        ``synthetic``: characters that simulated writers draw, made when they are needed; else the name or
        folder of a prepared data set (``fedcomp data prepare emnist``).
    model
        ``cnn``: 1,206,590 parameters; ``1m``: 1,018,174 parameters, nearly twice as fast on a CPU.
    partition, dirichlet_alpha, examples_per_client, test_examples
        Of prepared data: see :class:`fedcomp.tasks.prepared.PreparedExamples`.
    examples_per_client
        Of synthetic data: training examples of each client, spread evenly over its writers; 1000.
    writers_per_client
        Of synthetic data: writers that belong to each client and to no other; 10.
    dirichlet_alpha
        Of synthetic data: concentration of the Dirichlet distribution of each training writer's classes; 0.3.
    test_examples
        Of synthetic data: size of the test set; 2000.
    test_writers
        Of synthetic data: writers of the test set, whom no client has; 40.

    Raises
    ------
    ConfigError
        When an option has no allowed value, or does not apply to the data chosen.
    DataError
        When the data set is not there or damaged.
    """

    name = "emnist"
    data_label = LABEL

    def __init__(
        self,
        *,
        data: str | Path = SYNTHETIC,
        model: str = "cnn",
        partition: str | None = None,
        examples_per_client: int | None = None,
        writers_per_client: int | None = None,
        dirichlet_alpha: float | None = None,
        test_examples: int | None = None,
        test_writers: int | None = None,
    ) -> None:
        if model not in MODELS:
            raise ConfigError(f"emnist: model = {model!r}; allowed: {', '.join(MODELS)}")
        self._model = MODELS[model]
        options = {
            "partition": partition,
            "examples_per_client": examples_per_client,
            "writers_per_client": writers_per_client,
            "dirichlet_alpha": dirichlet_alpha,
            "test_examples": test_examples,
            "test_writers": test_writers,
        }
        given: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
        self._synthetic: SyntheticCharacters | None = None
        if data == SYNTHETIC:
            _refuse(given, ("partition",), "prepared data", "data=synthetic, whose clients have writers of their own")
            self._synthetic = SyntheticCharacters(**given)
        else:
            _refuse(given, ("writers_per_client", "test_writers"), "data=synthetic", f"data={data}")
            self._prepared = PreparedExamples(open_dataset(data_folder(data), self.name), **given)
            self.data_label = self._prepared.label

    def build_model(self, *, seed: int) -> nn.Module:
        """Return the CNN chosen: (n, 1, 28, 28) to logits (n, 62)."""
        return self._model(seed=seed)

    def client_writers(self, partition_id: int, num_partitions: int) -> list[str]:
        """Return the names of one client's writers, of synthetic data.

        Raises
        ------
        ConfigError
            Unless ``0 <= partition_id < num_partitions``, or when the data are prepared ones.
        """
        return self._simulated().client_writers(partition_id, num_partitions)

    def test_writers(self) -> list[str]:
        """Return the names of the test set's writers, of synthetic data; raises ConfigError for prepared ones."""
        return self._simulated().test_writers()

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        """Return one client's examples: float32 inputs (n, 1, 28, 28) in [0, 1], ink 1; int64 targets (n,), 0 to 61.

        Of prepared data n may be 0.

        Raises
        ------
        ConfigError
            Unless ``0 <= partition_id < num_partitions``, or when there are more clients than owners to deal out.
        """
        if self._synthetic is not None:
            return self._synthetic.client_examples(partition_id, num_partitions, seed=seed)
        return _examples(self._prepared.client_rows(partition_id, num_partitions, seed=seed))

    def test_examples(self, *, seed: int) -> Examples:
        """Return the test set, in the form of :meth:`client_examples`."""
        if self._synthetic is not None:
            return self._synthetic.test_examples(seed=seed)
        return _examples(self._prepared.test_rows(seed=seed))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy of logits (n, 62) and targets (n,), a 0-d tensor."""
        return functional.cross_entropy(outputs, targets)

    def _simulated(self) -> SyntheticCharacters:
        if self._synthetic is None:
            raise ConfigError("emnist: only data=synthetic has simulated writers")
        return self._synthetic


def _examples(rows: Rows) -> Examples:
    inputs, targets = rows
    return Examples(torch.from_numpy(inputs).unsqueeze(1).float() / 255.0, torch.from_numpy(targets).long())


def _refuse(given: Mapping[str, object], keys: tuple[str, ...], applies_to: str, chosen: str) -> None:
    for key in keys:
        if key in given:
            name = key.replace("_", "-")
            raise ConfigError(
                f"emnist: {name} = {given[key]!r} applies to {applies_to}, this is {chosen}; leave it out"
            )
