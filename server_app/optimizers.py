"""Server optimizers by name: Flower's strategies, and LAMB and LARS of our own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from torch import Tensor

from fedcomp.errors import ConfigError
from fedcomp.optim.lamb import Lamb
from fedcomp.optim.lars import Lars
from server_app.strategy import FLOWER_STRATEGIES, ServerOptimizer, flower_strategy

STRATEGIES = (*FLOWER_STRATEGIES, "fedlamb", "fedlars")
"""The names of all server optimizers."""


class Optimizer(Protocol):
    """Applies mean updates to the model, and remembers moments between them."""

    def step(
        self, model: Tensor, mean_update: Tensor, *, weight: float, round_index: int, learning_rate: float | None = None
    ) -> Tensor:
        """Return the next model vector; ``learning_rate`` is of this step, by default the one configured."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return copies of what is remembered, by name; empty before the first step and where there is nothing."""
        ...

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Become what ``state`` was called on."""
        ...

    def reset(self) -> None:
        """Forget what is remembered, as before the first step."""
        ...


def build_optimizer(
    name: str,
    *,
    shapes: Sequence[tuple[int, ...]],
    learning_rate: float,
    momentum: float = 0.9,
    beta_1: float = 0.9,
    beta_2: float = 0.99,
    tau: float = 1e-3,
    trust: float = 0.001,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Return the server optimizer of a run.

    Parameters
    ----------
    name
        One of ``STRATEGIES``.
    shapes
        The tensors of the model vector in order (``VectorSpec.shapes``); fedlamb and fedlars need them.
    learning_rate
        For steps that name none. With fedavg a step is x + rate · Δ.
    momentum
        Of fedavgm and fedlars.
    beta_1, beta_2, tau
        Of fedadam, fedyogi and fedlamb; fedadagrad takes tau alone. Defaults as in Reddi et al., ICLR 2021, for all of
        them; LAMB's paper has β₂ = 0.999 and 1e-6 for gradients of batches.
    trust
        Trust coefficient of fedlars. The paper's 0.001 is for gradients of batches: FedAvg's mean update on the EMNIST
        demo is 0.2 of the model's length in round 6, so that a mean update wants a trust or a rate many times as large.
    weight_decay
        Of fedlamb and fedlars.

    Raises
    ------
    ConfigError
        For an unknown name.
    """
    if name in FLOWER_STRATEGIES:
        strategy = flower_strategy(
            name, learning_rate=learning_rate, momentum=momentum, beta_1=beta_1, beta_2=beta_2, tau=tau
        )
        return ServerOptimizer(strategy, learning_rate=learning_rate)
    if name == "fedlamb":
        return Lamb(
            shapes, learning_rate=learning_rate, beta_1=beta_1, beta_2=beta_2, tau=tau, weight_decay=weight_decay
        )
    if name == "fedlars":
        return Lars(shapes, learning_rate=learning_rate, momentum=momentum, trust=trust, weight_decay=weight_decay)
    raise ConfigError(f"strategy is {name!r}; allowed: {', '.join(STRATEGIES)}")
