"""Small models that have what training must get right: blocks, dropout, BatchNorm, failing memory."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from fedcomp.tasks.base import Examples
from tests.support.tiny_task import TinyTask

EXAMPLES = TinyTask(examples=24).client_examples(0, 1, seed=1)


class Block(nn.Module):
    def __init__(self, width: int, *, dropout: float, norm: bool) -> None:
        super().__init__()
        self.first = nn.Linear(width, width)
        self.norm = nn.BatchNorm1d(width) if norm else nn.Identity()
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor, *, scale: float = 1.0) -> Tensor:
        out: Tensor = x + scale * self.drop(torch.tanh(self.norm(self.first(x))))
        return out


class Residual(nn.Module):
    """Three blocks in a ModuleList, then a head."""

    def __init__(self, *, dropout: float = 0.0, norm: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(8, dropout=dropout, norm=norm) for _ in range(3))
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x, scale=0.5)
        out: Tensor = self.head(x)
        return out


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    """Build a model whose first weights are always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        return build()


def residual(*, dropout: float = 0.0, norm: bool = False) -> nn.Module:
    return seeded(lambda: Residual(dropout=dropout, norm=norm))


def chain(*, dropout: float = 0.0) -> nn.Module:
    """Seven plain layers in one Sequential."""
    return seeded(
        lambda: nn.Sequential(
            nn.Linear(8, 16),
            nn.ReLU(inplace=True),
            nn.Dropout(dropout),
            nn.Linear(16, 16),
            nn.Tanh(),
            nn.Dropout(dropout),
            nn.Linear(16, 2),
        )
    )


class Scarce(nn.Module):
    """Runs out of memory, forwards or backwards, when more than ``most`` examples come at once."""

    def __init__(self, inner: nn.Module, *, most: int, where: str, error: Exception | None = None) -> None:
        super().__init__()
        self.inner = inner
        self.most = most
        self.where = where
        self.error = error or torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        self.sizes: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.sizes.append(len(x))
        out: Tensor = self.inner(x)
        if len(x) <= self.most:
            return out
        if self.where == "forward":
            raise self.error
        failing: Tensor = _FailsBackwards.apply(out, self.error)  # type: ignore[no-untyped-call]
        return failing


class _FailsBackwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, error: Exception) -> Tensor:
        ctx.error = error  # type: ignore[attr-defined]
        return x.clone()

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, *_: Tensor) -> tuple[None, None]:
        raise ctx.error  # type: ignore[attr-defined]


def all_equal(first: nn.Module, second: nn.Module) -> bool:
    """Tell whether two models hold the same bits, buffers included."""
    one, two = first.state_dict(), second.state_dict()
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def part(examples: Examples, count: int) -> Examples:
    return Examples(examples.inputs[:count], examples.targets[:count])
