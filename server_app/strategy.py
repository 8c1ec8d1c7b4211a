"""Flower's mean-based strategies as the server's arithmetic.

Flower aggregates a list of whole replies. Here the mean is formed while replies stream in, and the strategy is handed
one synthetic reply that holds the mean model and the total weight; its own mean of that one reply is the reply itself.
The model is a single flat array: these strategies work coordinate by coordinate.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import FedAdam, FedAvg, FedAvgM, FedYogi
from flwr.supercore.run import Run
from torch import Tensor

from fedcomp.errors import ConfigError
from fedcomp.run_config import RunConfig

_MODEL = "model"
# What Flower's strategies remember between rounds: FedAdam and FedYogi by array name, FedAvgM in a list.
_MOMENTS = {"m_t": False, "v_t": False, "momentum_vector": True}


def build_strategy(config: RunConfig) -> FedAvg:
    """Return the Flower strategy that the run config names.

    Adam and Yogi have β = (0.9, 0.99) and τ = 1e-3, as in Reddi et al., "Adaptive federated optimization", ICLR 2021.

    Raises
    ------
    ConfigError
        For fedavg with a server learning rate other than 1, which it would ignore.
    """
    rate = config.server_learning_rate
    match config.strategy:
        case "fedavg":
            if rate != 1.0:
                raise ConfigError(f"server-learning-rate is {rate} with strategy fedavg; allowed: 1.0, or use fedavgm")
            return FedAvg(min_train_nodes=1, min_available_nodes=1)
        case "fedavgm":
            return FedAvgM(
                min_train_nodes=1,
                min_available_nodes=1,
                server_learning_rate=rate,
                server_momentum=config.server_momentum,
            )
        case "fedadam":
            return FedAdam(min_train_nodes=1, min_available_nodes=1, eta=rate, beta_1=0.9, beta_2=0.99, tau=1e-3)
        case "fedyogi":
            return FedYogi(min_train_nodes=1, min_available_nodes=1, eta=rate, beta_1=0.9, beta_2=0.99, tau=1e-3)


class ServerOptimizer:
    """Applies a mean update to the model with a Flower strategy."""

    def __init__(self, strategy: FedAvg) -> None:
        self._strategy = strategy

    def step(self, model: Tensor, mean_update: Tensor, *, weight: float, round_index: int) -> Tensor:
        """Return the next model vector; ``model`` is unchanged.

        Parameters
        ----------
        model, mean_update
            Vectors of the same dim.
        weight
            Sum of the clients' weights.
        round_index
            Counts from 1.
        """
        current = ArrayRecord({_MODEL: Array(model.numpy().copy())})
        mean_model = ArrayRecord({_MODEL: Array((model + mean_update).numpy())})
        metrics = MetricRecord({"num-examples": weight})
        reply = Message(
            RecordDict({"arrays": mean_model, "metrics": metrics}), dst_node_id=1, message_type=MessageType.TRAIN
        )
        with _quiet_flower():
            # The strategies remember the current model when they configure a round; their messages are not sent.
            self._strategy.configure_train(round_index, current, ConfigRecord(), _OneNode())
            arrays, _ = self._strategy.aggregate_train(round_index, [reply])
        if arrays is None:
            raise RuntimeError(f"{type(self._strategy).__name__} returned no arrays for a reply of weight {weight}")
        return torch.from_numpy(arrays[_MODEL].numpy().copy()).float()

    def state(self) -> dict[str, Tensor]:
        """Return copies of the moments, by name; empty before the first step and for strategies without any."""
        found: dict[str, Tensor] = {}
        for name in _MOMENTS:
            value = getattr(self._strategy, name, None)
            if value:
                (array,) = value.values() if isinstance(value, dict) else value
                found[name] = torch.from_numpy(array.copy())
        return found

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Replace the moments by those of ``state``."""
        for name, as_list in _MOMENTS.items():
            if hasattr(self._strategy, name):
                array = state[name].numpy().copy() if name in state else None
                setattr(self._strategy, name, None if array is None else [array] if as_list else {_MODEL: array})
        # FedAvgM takes the first model that it is shown for its own; what it had is of the past.
        if hasattr(self._strategy, "current_arrays"):
            self._strategy.current_arrays = None


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
