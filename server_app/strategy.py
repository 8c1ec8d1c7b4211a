"""Flower's mean-based strategies as the server's arithmetic.

Flower aggregates a list of whole replies. Here the mean is formed while replies stream in, and the strategy is handed
one synthetic reply that holds the mean model and the total weight; its own mean of that one reply is the reply itself.
The model is a single flat array: these strategies work coordinate by coordinate.

Where Flower 1.42 differs from Reddi et al., "Adaptive federated optimization", ICLR 2021, algorithm 2, which has no
correction of the moments' bias and starts v at τ² or above:

- v starts at 0 in FedAdagrad, FedAdam and FedYogi.
- FedAdam multiplies the rate in round t by √(1 − β₂ᵗ⁺¹) / (1 − β₁ᵗ⁺¹), Adam's correction one round ahead. Here t
  counts the steps since the moments were empty, not rounds, so that it fits them after a reset, a rollback and rounds
  without a mean. FedYogi and FedAdagrad have no correction.
- FedAdagrad has no momentum: β₁ is fixed at 0, and it takes no betas.

The defaults of β₁ = 0.9, β₂ = 0.99 and τ = 1e-3 are the paper's, here and in Flower's FedAdam and FedYogi (the older
``flwr.server.strategy`` has a τ of 1e-9). Flower's default rates are not used: the rate is always given.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedAvg, FedAvgM, FedYogi
from flwr.serverapp.strategy.fedopt import FedOpt
from flwr.supercore.run import Run
from torch import Tensor

from fedcomp.errors import ConfigError

FLOWER_STRATEGIES = ("fedavg", "fedavgm", "fedadagrad", "fedadam", "fedyogi")

_MODEL = "model"
# What Flower's strategies remember between rounds: those of Reddi et al. by array name, FedAvgM in a list.
_MOMENTS = {"m_t": False, "v_t": False, "momentum_vector": True}


def flower_strategy(
    name: str,
    *,
    learning_rate: float,
    momentum: float = 0.9,
    beta_1: float = 0.9,
    beta_2: float = 0.99,
    tau: float = 1e-3,
) -> FedAvg:
    """Return a Flower strategy by name.

    Parameters
    ----------
    name
        One of ``FLOWER_STRATEGIES``.
    learning_rate
        Of the server; Flower's FedAvg has none, see ``ServerOptimizer``.
    momentum
        Of fedavgm.
    beta_1, beta_2, tau
        Decay of the moments of fedadam and fedyogi, and what is added to the root, there and in fedadagrad.

    Raises
    ------
    ConfigError
        For an unknown name.
    """
    match name:
        case "fedavg":
            return FedAvg(min_train_nodes=1, min_available_nodes=1)
        case "fedavgm":
            strategy = FedAvgM(
                min_train_nodes=1,
                min_available_nodes=1,
                server_learning_rate=learning_rate,
                server_momentum=momentum,
            )
            # With a rate of 1 and no momentum it would take itself for FedAvg, for good: the rate may change.
            strategy.server_opt = True
            return strategy
        case "fedadagrad":
            return FedAdagrad(min_train_nodes=1, min_available_nodes=1, eta=learning_rate, tau=tau)
        case "fedadam" | "fedyogi":
            kind = FedAdam if name == "fedadam" else FedYogi
            return kind(
                min_train_nodes=1,
                min_available_nodes=1,
                eta=learning_rate,
                beta_1=beta_1,
                beta_2=beta_2,
                tau=tau,
            )
    raise ConfigError(f"strategy is {name!r}; allowed: {', '.join(FLOWER_STRATEGIES)}")


class ServerOptimizer:
    """Applies a mean update to the model with a Flower strategy.

    Parameters
    ----------
    strategy
        As ``flower_strategy`` makes it.
    learning_rate
        For steps that name none; by default the strategy's own, for FedAvg 1. FedAvg has no rate: it is handed the mean
        update times the rate, and so gives x + rate · Δ.
    """

    def __init__(self, strategy: FedAvg, *, learning_rate: float | None = None) -> None:
        self._strategy = strategy
        self._rate = _own_rate(strategy) if learning_rate is None else learning_rate
        self._steps = 0

    def step(
        self, model: Tensor, mean_update: Tensor, *, weight: float, round_index: int, learning_rate: float | None = None
    ) -> Tensor:
        """Return the next model vector; ``model`` is unchanged.

        Parameters
        ----------
        model, mean_update
            Vectors of the same dim.
        weight
            Sum of the clients' weights.
        round_index
            Counts from 1; for messages.
        learning_rate
            Of this step; the one configured by default.
        """
        rate = self._rate if learning_rate is None else learning_rate
        match self._strategy:
            case FedOpt():
                self._strategy.eta = rate
            case FedAvgM():
                self._strategy.server_learning_rate = rate
                self._strategy.current_arrays = None  # or it would go on from its own last model, not this one
            case _:
                mean_update = rate * mean_update
        self._steps += 1
        current = ArrayRecord({_MODEL: Array(model.numpy().copy())})
        mean_model = ArrayRecord({_MODEL: Array((model + mean_update).numpy())})
        metrics = MetricRecord({"num-examples": weight})
        reply = Message(
            RecordDict({"arrays": mean_model, "metrics": metrics}), dst_node_id=1, message_type=MessageType.TRAIN
        )
        with _quiet_flower():
            # The strategies remember the current model when they configure a round; their messages are not sent.
            self._strategy.configure_train(self._steps, current, ConfigRecord(), _OneNode())
            arrays, _ = self._strategy.aggregate_train(self._steps, [reply])
        if arrays is None:
            name = type(self._strategy).__name__
            raise RuntimeError(f"round {round_index}: {name} returned no arrays for a reply of weight {weight}")
        return torch.from_numpy(arrays[_MODEL].numpy().copy()).float()

    def state(self) -> dict[str, Tensor]:
        """Return copies of the moments, by name, and the number of steps in them.

        Empty before the first step and for strategies without moments.
        """
        found: dict[str, Tensor] = {}
        for name in _MOMENTS:
            value = getattr(self._strategy, name, None)
            if value:
                (array,) = value.values() if isinstance(value, dict) else value
                found[name] = torch.from_numpy(array.copy())
        return found | {"steps": torch.tensor(self._steps)} if found else {}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Replace the moments by those of ``state``."""
        for name, as_list in _MOMENTS.items():
            if hasattr(self._strategy, name):
                array = state[name].numpy().copy() if name in state else None
                setattr(self._strategy, name, None if array is None else [array] if as_list else {_MODEL: array})
        self._steps = int(state["steps"]) if "steps" in state else 0

    def reset(self) -> None:
        """Forget the moments, as before the first step."""
        self.restore({})


def _own_rate(strategy: FedAvg) -> float:
    match strategy:
        case FedOpt():
            return strategy.eta
        case FedAvgM():
            return strategy.server_learning_rate
    return 1.0


@contextmanager
def _quiet_flower() -> Iterator[None]:
    """Hide Flower's line about one node and one result: they are the synthetic reply, and would mislead."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(max(level, logging.WARNING))
    try:
        yield
    finally:
        logger.setLevel(level)


class _OneNode(Grid):
    """A grid that shows a strategy one node to sample from; nothing can be sent through it."""

    def get_node_ids(self) -> Iterable[int]:
        return [1]

    def set_run(self, run: Run) -> None:
        raise RuntimeError("this grid has no run")

    @property
    def run(self) -> Run:
        raise RuntimeError("this grid has no run")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        raise RuntimeError("this grid sends nothing")

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        raise RuntimeError("this grid sends nothing")

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        raise RuntimeError("this grid sends nothing")

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        raise RuntimeError("this grid sends nothing")
