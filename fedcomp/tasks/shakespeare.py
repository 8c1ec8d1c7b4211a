"""The task ``shakespeare``: a character LSTM that predicts the next character, on Python's help texts by default."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedcomp.data.dataset import open_dataset
from fedcomp.data.names import data_folder
from fedcomp.data.python_help import help_texts
from fedcomp.data.shakespeare_characters import PAD
from fedcomp.data.shakespeare_roles import KIND
from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Examples, Task
from fedcomp.tasks.prepared import PreparedExamples, Rows
from fedcomp.tasks.shakespeare_model import CharacterLstm

EMBEDDED = "embedded"
"""The option ``data`` of the texts that need no download."""

_MODELS = {"lstm": (256, 2), "small": (128, 1)}
_EMBEDDED_CAP, _EMBEDDED_TEST = 200, 500


class ShakespeareTask(Task):
    """Next-character prediction on windows of 80 tokens; what counts is every target that is no padding.

    The embedded texts are Python's own help texts in English, one owner a topic: enough to see that training works,
    nothing to compare with results on Shakespeare. Any other data are prepared by ``fedcomp data prepare shakespeare``.

    Parameters
    ----------
    data
        ``embedded``, or the name or folder of a prepared data set of kind ``shakespeare``.
    model
        ``lstm``, the baseline's two layers of 256 units, 820,522 parameters; ``small``, one of 128, 82,474 parameters
        and five to eight times as fast.
    partition
        How training windows are dealt to clients: ``natural``, whole owners; ``iid``, at random; ``size``, at random in
        parts of very different size. There are no classes for ``dirichlet``.
    examples_per_client
        The most training windows of a client, a seeded sample; 0 takes all. By default 200 of the embedded texts and
        all of other data.
    test_examples
        Size of the test set, a seeded sample; 0 takes all. By default 500 of the embedded texts and all of other data.

    Raises
    ------
    ConfigError
        When an option has a value that is not allowed.
    DataError
        When the data set is not there or damaged.
    """

    name = KIND

    def __init__(
        self,
        *,
        data: str | Path = EMBEDDED,
        model: str = "lstm",
        partition: str = "natural",
        examples_per_client: int | None = None,
        test_examples: int | None = None,
    ) -> None:
        if model not in _MODELS:
            raise ConfigError(f"shakespeare: model = {model!r}; allowed: {', '.join(_MODELS)}")
        if partition == "dirichlet":
            raise ConfigError(
                f"shakespeare: partition = {partition!r}, but text has no classes to deal out; use natural, iid or size"
            )
        self._width, self._layers = _MODELS[model]
        embedded = data == EMBEDDED
        if embedded:
            examples_per_client = _EMBEDDED_CAP if examples_per_client is None else examples_per_client
            test_examples = _EMBEDDED_TEST if test_examples is None else test_examples
        self._prepared = PreparedExamples(
            help_texts() if embedded else open_dataset(data_folder(data), KIND),
            partition=partition,
            examples_per_client=examples_per_client or 0,
            test_examples=test_examples or 0,
        )
        self.data_label = self._prepared.label

    def build_model(self, *, seed: int) -> nn.Module:
        """Return the LSTM: tokens (n, 80) to logits (n, 80, 90)."""
        return CharacterLstm(seed=seed, width=self._width, layers=self._layers)

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        """Return one client's windows: int64 inputs and targets, both (n, 80), tokens 0 to 89; 0 is padding.

        Raises
        ------
        ConfigError
            Unless ``0 <= partition_id < num_partitions``, or when there are fewer owners than partitions.
        """
        return _examples(self._prepared.client_rows(partition_id, num_partitions, seed=seed))

    def test_examples(self, *, seed: int) -> Examples:
        """Return the test set, in the form of :meth:`client_examples`."""
        return _examples(self._prepared.test_rows(seed=seed))

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy of logits (n, 80, 90) over all targets that are no padding; 0 without any."""
        total = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum")
        return total / max(self.loss_weight(targets), 1.0)

    def loss_weight(self, targets: Tensor) -> float:
        """Return how many targets are no padding."""
        return float((targets != PAD).sum())

    def correct(self, outputs: Tensor, targets: Tensor) -> tuple[int, int]:
        """Return (targets that were predicted, targets), padding left out."""
        counted = targets != PAD
        return int(((outputs.argmax(dim=-1) == targets) & counted).sum()), int(counted.sum())


def _examples(rows: Rows) -> Examples:
    inputs, targets = (torch.from_numpy(array).long() for array in rows)
    return Examples(inputs, targets)
