"""A plain Flower app that knows nothing of fedcomp, and a way to run a strategy with it in this process."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.typing import ClientAppCallable, Mod
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Strategy
from flwr.serverapp.strategy.result import Result
from flwr.supercore.task_identity import TaskIdentity
from numpy.typing import NDArray

from fedcomp.flower import CompressedGrid, compression_mod
from tests.support.in_process_grid import InProcessGrid

Values = NDArray[Any]
FLOATS = {"weight": ((64, 24), "float32"), "bias": ((24,), "float32"), "scale": ((), "float32")}
KINDS = FLOATS | {
    "empty": ((0, 3), "float32"),
    "half": ((10,), "float16"),
    "double": ((2, 5), "float64"),
    "steps": ((), "int64"),
    "small": ((3,), "uint8"),
    "mask": ((4,), "bool"),
}


def model(kinds: Mapping[str, tuple[tuple[int, ...], str]], seed: int) -> dict[str, Values]:
    rng = np.random.default_rng(seed)
    drawn = {name: 4 + 2 * rng.standard_normal(shape) for name, (shape, _) in kinds.items()}
    made = {name: np.asarray(values.astype(kinds[name][1])) for name, values in drawn.items()}
    if "mask" in made:
        made["mask"] = np.asarray(drawn["mask"] > 4)
    return made


def record(arrays: Mapping[str, Values]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.asarray(values)) for name, values in arrays.items()})


def values(arrays: Mapping[str, Array]) -> dict[str, Values]:
    return {name: array.numpy() for name, array in arrays.items()}


def client_app(mods: Sequence[Mod], train_mods: Sequence[Mod], contexts: dict[int, Context]) -> ClientApp:
    """Each client moves half of the way to a model of its own, in the dtypes of its own.

    ``contexts`` live as long as this app, as a SuperNode keeps them: node id to context.
    """

    def keep_context(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        return call_next(message, contexts.setdefault(context.node_id, context))

    app = ClientApp(mods=[keep_context, *mods])

    @app.train(mods=list(train_mods))
    def train(message: Message, context: Context) -> Message:
        assert list(message.content) == ["arrays", "config"]
        received = values(message.content.array_records["arrays"])
        client = int(context.node_config["partition-id"])
        own = model({name: kind for name, kind in KINDS.items() if name in received}, 100 + client)
        trained: dict[str, Values] = {}
        for name, target in own.items():
            if target.dtype.kind == "f":
                step = (target.astype(np.float64) - received[name].astype(np.float64)) / 2
                trained[name] = np.asarray((received[name].astype(np.float64) + step).astype(target.dtype))
            else:
                trained[name] = target
        metrics = MetricRecord({"num-examples": 10 * (client + 1), "loss": 0.5 + client, "curve": [1.0, float(client)]})
        return Message(RecordDict({"arrays": record(trained), "metrics": metrics}), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        assert list(message.content) == ["arrays", "config"]
        weight = message.content.array_records["arrays"]["weight"].numpy()
        metrics = MetricRecord({"num-examples": 1, "mean": float(weight.mean())})
        return Message(RecordDict({"metrics": metrics}), reply_to=message)

    return app


def nodes(count: int, mods: Sequence[Mod] = (compression_mod,), train_mods: Sequence[Mod] = ()) -> InProcessGrid:
    """Return a grid of nodes 1000, 1001, …"""
    identify()
    config: dict[int, dict[str, str | int | float | bool]] = {1000 + i: {"partition-id": i} for i in range(count)}
    return InProcessGrid(client_app(mods, train_mods, {}), config, {})


def identify() -> None:
    """Give this process the identity that Flower gives a server app, without which no Message can be made."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def start(strategy: Strategy, grid: Grid, kinds: Iterable[str] = KINDS, rounds: int = 3) -> Result:
    """Run a strategy from a fixed model, with the same cohort order and noise each time."""
    random.seed(5)
    np.random.seed(5)
    initial = record(model({name: KINDS[name] for name in kinds}, 1))
    return strategy.start(grid=grid, initial_arrays=initial, num_rounds=rounds, timeout=5)


def compressed(grid: Grid, spec: str, strategy: Strategy, *, stream: bool | None = None) -> CompressedGrid:
    return CompressedGrid(grid, spec, strategy=strategy, stream=stream, secret=b"the same in every test")


def flat(arrays: ArrayRecord) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.concatenate([array.numpy().astype(np.float64).reshape(-1) for array in arrays.values()])


def initial(kinds: Iterable[str] = KINDS) -> ArrayRecord:
    return record(model({name: KINDS[name] for name in kinds}, 1))


def is_evaluate(message: Message) -> bool:
    return message.metadata.message_type == "evaluate"


def in_training(change: Callable[[Message], Message | None]) -> Callable[[Message], Message | None]:
    return lambda reply: reply if is_evaluate(reply) else change(reply)


def weighing(value: float) -> Callable[[Message], Message]:
    def changed(reply: Message) -> Message:
        reply.content.metric_records["metrics"]["num-examples"] = value
        return reply

    return changed
