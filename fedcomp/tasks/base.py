"""The interface of a task: everything a federated run needs to know about data and model.

A task never knows how updates are compressed. Write your own by subclassing :class:`Task` and naming it by its dotted
path, ``task = "mypackage.mymodule:MyTask"``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Examples:
    """One client's examples, or the test set.

    Attributes
    ----------
    inputs
        Tensor of shape (n, …), what the model takes.
    targets
        Tensor of shape (n, …), what the loss compares with.
    """

    inputs: Tensor
    targets: Tensor

    def __len__(self) -> int:
        return int(self.inputs.shape[0])


class Task(ABC):
    """Data, model, loss and metric of one learning problem.

    Attributes
    ----------
    name
        The name it is asked for by.
    data_label
        One line that says plainly which data this is; it is printed with every result.
    """

    name: str
    data_label: str

    @abstractmethod
    def build_model(self, *, seed: int) -> nn.Module:
        """Return a freshly initialised model: the same seed, the same weights; global randomness is untouched."""

    @abstractmethod
    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        """Return the training examples of one client, ``0 <= partition_id < num_partitions``."""

    @abstractmethod
    def test_examples(self, *, seed: int) -> Examples:
        """Return held-out examples that no client trains on."""

    @abstractmethod
    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss over the batch, a 0-d tensor."""

    def loss_weight(self, targets: Tensor) -> float:
        """Return how much a batch's mean loss counts against another's: how many targets it is the mean of.

        The default is the number of examples. A task whose loss leaves some targets out, such as padding, returns the
        number of those that count; 0 when there is none.
        """
        return float(len(targets))

    def correct(self, outputs: Tensor, targets: Tensor) -> tuple[int, int]:
        """Return (how many predictions were right, how many counted); the default takes the argmax of the last axis."""
        return int((outputs.argmax(dim=-1) == targets).sum()), int(torch.numel(targets))
