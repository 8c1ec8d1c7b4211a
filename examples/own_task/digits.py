"""A task of your own: scikit-learn's 1,797 handwritten digits, dealt to the clients, and a small network.

PYTHONPATH=$PWD/examples fedcomp simulate --task own_task.digits --rounds 20
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from fedcomp.tasks.base import Examples, Task

TESTS = 297


class Digits(Task):
    """Images of 8×8 pixels, ten classes; the first 297 are held out."""

    name = "digits"
    data_label = "scikit-learn's handwritten digits"

    def __init__(self, hidden: int = 64) -> None:
        self.hidden = hidden  # --task own_task.digits:hidden=128
        digits = load_digits()
        self.inputs = torch.from_numpy(digits.data).float() / 16
        self.targets = torch.from_numpy(digits.target).long()

    def build_model(self, *, seed: int) -> nn.Module:
        """Return the same weights for the same seed, and leave torch's own generator alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(64, self.hidden), nn.ReLU(), nn.Linear(self.hidden, 10))

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        """Deal the training examples out evenly, in an order that depends on the seed."""
        order = torch.randperm(len(self.targets) - TESTS, generator=torch.Generator().manual_seed(seed)) + TESTS
        mine = order[partition_id::num_partitions]
        return Examples(self.inputs[mine], self.targets[mine])

    def test_examples(self, *, seed: int) -> Examples:
        """Return what no client trains on."""
        return Examples(self.inputs[:TESTS], self.targets[:TESTS])

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy."""
        return functional.cross_entropy(outputs, targets)
