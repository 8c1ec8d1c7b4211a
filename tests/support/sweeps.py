"""Sweeps of the tiny task, and stores filled with runs of them."""

from __future__ import annotations

from typing import Any

from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from fedcomp.run_config import RunConfig
from fedcomp.sweeps.cells import Cell, cells_of
from fedcomp.sweeps.spec import Sweep, parse_sweep
from tests.support.runs import TINY


def tiny_sweep(**changes: Any) -> Sweep:
    """Return a sweep of two arms and one seed; keys are those of a sweep file."""
    content: dict[str, Any] = {
        "name": "tiny",
        "task": TINY,
        "clients": 3,
        "settings": {"num-server-rounds": 3, "learning-rate": 0.1, "node-timeout": 1.0},
        "arms": {"plain": "identity", "eden-2": "eden:bits=2"},
    }
    return parse_sweep(content | changes)


def cells(**changes: Any) -> list[Cell]:
    """Return the cells of :func:`tiny_sweep`."""
    return list(cells_of(tiny_sweep(**changes)))


def add_run(
    store: RunStore, cell: Cell, *, accuracies: list[float], status: str = "completed", bits: float = 2.0
) -> str:
    """Add a cell's run with one round an accuracy, each of two clients and 1000 bytes, and return its id."""
    config = RunConfig.from_mapping(cell.settings)
    run_id = store.create_run(
        RunStart(
            name=cell.name,
            task=config.task,
            data_label="clouds",
            compressor=config.compressor,
            strategy=config.strategy,
            seed=config.seed,
            num_rounds=config.num_server_rounds,
            dim=1000,
            config=config.to_mapping(),
            environment={},
            flower_run_id=str(abs(hash(cell.name))),
        )
    )
    store.start_run(run_id)
    for index, accuracy in enumerate(accuracies, start=1):
        clients = [client(f"c{number}", vnmse=0.4, weight=weight) for number, weight in ((0, 1.0), (1, 3.0))]
        result = RoundResult(
            round_index=index,
            accuracy=accuracy,
            clients=2,
            uplink_payload_bytes=1000,
            uplink_envelope_bytes=10,
            downlink_payload_bytes=0,
            downlink_envelope_bytes=0,
            bits_per_coordinate=bits,
            seconds=1.0,
        )
        store.record_round(run_id, result, clients)
    if status in ("completed", "failed", "cancelled"):
        store.finish_run(run_id, status)  # type: ignore[arg-type]
    return run_id


def client(name: str, *, vnmse: float | None, weight: float) -> ClientResult:
    """Return what one client did in a round."""
    return ClientResult(
        client=name,
        client_id=name,
        node_id=name,
        num_examples=1,
        weight=weight,
        payload_bytes=500,
        envelope_bytes=5,
        bits_per_coordinate=2.0,
        train_seconds=0.1,
        encode_seconds=0.1,
        decode_seconds=0.1,
        vnmse=vnmse,
        device="cpu",
    )
