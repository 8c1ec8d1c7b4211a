"""Small tasks that train in milliseconds; named by dotted path like a user's own."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedcomp.tasks.base import Examples, Task


class TinyTask(Task):
    """Two Gaussian clouds; a linear model separates them."""

    name = "tiny"
    data_label = "two synthetic Gaussian clouds"

    def __init__(self, examples: int = 40, width: int = 40, tests: int = 200) -> None:
        self.examples = examples
        self.tests = tests
        self.width = width

    def build_model(self, *, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return nn.Sequential(nn.Linear(8, self.width), nn.Tanh(), nn.Linear(self.width, 2))

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        return self._draw(self.examples, seed * 1000 + partition_id + 1)

    def test_examples(self, *, seed: int) -> Examples:
        return self._draw(self.tests, seed * 1000)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, targets)

    def _draw(self, count: int, seed: int) -> Examples:
        generator = torch.Generator().manual_seed(seed)
        targets = torch.arange(count) % 2
        inputs = torch.randn(count, 8, generator=generator) + 1.5 * (2 * targets[:, None] - 1)
        return Examples(inputs, targets)


class BufferTask(TinyTask):
    """The same with BatchNorm, whose counters are integers, a tied weight, a bool mask and a 0-d parameter."""

    name = "buffers"

    def build_model(self, *, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return BufferModel()


class BufferModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight
        self.norm = nn.BatchNorm1d(8)
        self.head = nn.Linear(8, 2)
        self.temperature = nn.Parameter(torch.tensor(1.0))
        self.mask: Tensor
        self.register_buffer("mask", torch.tensor([True] * 7 + [False]))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.norm(torch.tanh(self.second(torch.tanh(self.first(x)))))
        out: Tensor = self.head(hidden * self.mask) * self.temperature
        return out


class FailingTask(TinyTask):
    """Client 0 fails, and its error quotes what it keeps to itself."""

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        if partition_id == 0:
            raise RuntimeError("record of Rosalind Example cannot be read")
        return super().client_examples(partition_id, num_partitions, seed=seed)


class FlippedTask(TinyTask):
    """Client 3 has all its labels wrong."""

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        examples = super().client_examples(partition_id, num_partitions, seed=seed)
        return Examples(examples.inputs, 1 - examples.targets) if partition_id == 3 else examples


class HalfTask(TinyTask):
    """Weights in bfloat16, which the server adds up in float32."""

    def build_model(self, *, seed: int) -> nn.Module:
        return super().build_model(seed=seed).to(torch.bfloat16)

    def _draw(self, count: int, seed: int) -> Examples:
        examples = super()._draw(count, seed)
        return Examples(examples.inputs.to(torch.bfloat16), examples.targets)
