"""Whole runs in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from flwr.app import Context, RecordDict
from flwr.supercore.task_identity import TaskIdentity
from safetensors.torch import load_file
from torch import Tensor

from client_app.app import app as client_app
from dashboard.schemas import RunDetail
from dashboard.store import RunStore
from fedcomp.flower.messages import TrainRequest
from fedcomp.home import database_url
from server_app.app import main
from tests.support.in_process_grid import InProcessGrid, Tamper

TINY = "tests.support.tiny_task:TinyTask"
BUFFERS = "tests.support.tiny_task:BufferTask"
Value = str | int | float | bool


def settings(**changes: Value) -> dict[str, Value]:
    """Return a run config for the tiny task; underscores in names become hyphens."""
    base: dict[str, Value] = {
        "task": TINY,
        "compressor": "eden:bits=4",
        "num-server-rounds": 3,
        "learning-rate": 0.1,
        "round-timeout": 5.0,
        "node-timeout": 1.0,
        "log-level": "warning",
    }
    return base | {key.replace("_", "-"): value for key, value in changes.items()}


def identify() -> None:
    """Give this process the identity that Flower gives a server app, without which no Message can be made."""
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1


def run_in_process(
    config: Mapping[str, Value],
    *,
    clients: int = 3,
    tamper: Mapping[int, Tamper] | None = None,
    grid: InProcessGrid | None = None,
) -> tuple[RunDetail, InProcessGrid]:
    """Run server app and client app in this process; return the run's record and the grid it went through."""
    identify()
    grid = grid or InProcessGrid.of(client_app, clients, config)
    grid.tamper.update(tamper or {})
    context = Context(run_id=77, node_id=1, node_config={}, state=RecordDict(), run_config=dict(config))
    main(grid, context)
    with RunStore(database_url()) as store:
        return store.find_run("latest"), grid


def final_model(run: RunDetail) -> dict[str, Tensor]:
    """Return what the run's last checkpoint holds of the model."""
    if run.checkpoint_path is None:
        raise AssertionError(f"run {run.id} has no checkpoint")
    return dict(load_file(Path(run.checkpoint_path) / "model.safetensors"))


def same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    """Whether two state dicts agree to the bit."""
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def requests_of(grid: InProcessGrid) -> list[TrainRequest]:
    """Return all training requests that were pushed."""
    return [TrainRequest.from_record(item.content) for item in grid.pushed if "parts" in item.content]
