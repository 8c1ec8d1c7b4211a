"""Finished runs drawn at random, as many and as long as one likes, to measure the dashboard on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlalchemy import insert, literal, select
from sqlalchemy.orm import Session

from dashboard import digests
from dashboard.models import ClientRound, Round, Run
from dashboard.store import RunStore

TASK = "emnist"
_SPECS = ("identity", "eden:bits=1", "eden:bits=2", "eden:bits=4", "qsgd:bits=4", "topk:fraction=0.05", "sign", "drive")
_DIM = 1_206_590
_BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
_SECONDS = 3.0  # a round
_ENVELOPE = 700  # bytes


@dataclass(frozen=True)
class _Sizes:
    runs: int
    rounds: int
    clients: int


@dataclass(frozen=True)
class _Measured:
    """What clients measured, which is the same in all runs: arrays of shape (rounds, clients)."""

    vnmse: npt.NDArray[np.float64]
    seconds: npt.NDArray[np.float64]


def fill(store: RunStore, *, runs: int, rounds: int, clients: int, seed: int) -> Iterator[str]:
    """Add finished runs of so many rounds with so many clients each and give their ids; the same for the same `seed`.

    Accuracies and bits are those of each run; what clients measured is drawn once, since copying rows is much faster.
    """
    sizes, random = _Sizes(runs, rounds, clients), np.random.default_rng((seed, runs))
    shape = (rounds, clients)
    measured = _Measured(random.uniform(0.1, 0.2, shape), random.uniform(0.5, 3, shape))
    first = ""
    for number in range(runs):
        began = _BEGIN + timedelta(hours=number)
        run_id = f"{began:%Y%m%d-%H%M%S}-{number:04d}"
        bits = float(random.uniform(1, 8))
        with store.writing() as session:
            session.execute(insert(Run), [_run(run_id, number, began, rounds)])
            session.execute(insert(Round), _rounds(run_id, bits, began, sizes, measured, random))
            if first:
                _copy_clients(session, first, run_id, bits)
            else:
                session.execute(insert(ClientRound), _clients(run_id, bits, sizes, measured))
            digests.add(session, run_id)
        first = first or run_id
        yield run_id


def _run(run_id: str, number: int, began: datetime, rounds: int) -> dict[str, Any]:
    spec, seed = _SPECS[number % len(_SPECS)], number // len(_SPECS)
    return {
        "id": run_id,
        "name": f"bench/{spec}/seed-{seed}",
        "task": TASK,
        "data_label": "made up",
        "compressor": spec,
        "strategy": "fedavg",
        "seed": str(seed),
        "num_rounds": rounds,
        "dim": _DIM,
        "config": {"compressor": spec, "seed": seed, "learning-rate": 0.03},
        "environment": {},
        "status": "completed",
        "created_at": began,
        "started_at": began,
        "finished_at": began + timedelta(seconds=_SECONDS * rounds),
    }


def _rounds(
    run_id: str, bits: float, began: datetime, sizes: _Sizes, measured: _Measured, random: np.random.Generator
) -> list[dict[str, Any]]:
    accuracy = 0.85 * (1 - np.exp(-np.arange(1, sizes.rounds + 1) / 200)) + random.normal(0, 0.005, sizes.rounds)
    vnmse, sent = measured.vnmse.mean(axis=1), sizes.clients * _payload(bits)
    return [
        {
            "run_id": run_id,
            "round_index": i + 1,
            "accuracy": float(accuracy[i]),
            "loss": float(1 - accuracy[i]),
            "train_loss": float(1.1 - accuracy[i]),
            "asked": sizes.clients,
            "clients": sizes.clients,
            "rejected": 0,
            "uplink_payload_bytes": sent,
            "uplink_envelope_bytes": sizes.clients * _ENVELOPE,
            "downlink_payload_bytes": sent,
            "downlink_envelope_bytes": sizes.clients * _ENVELOPE,
            "bits_per_coordinate": bits,
            "downlink_bits_per_coordinate": bits,
            "update_norm": 1.0,
            "seconds": _SECONDS,
            "status": "ok",
            "finished_at": began + timedelta(seconds=_SECONDS * (i + 1)),
            "vnmse": float(vnmse[i]),
        }
        for i in range(sizes.rounds)
    ]


def _clients(run_id: str, bits: float, sizes: _Sizes, measured: _Measured) -> list[dict[str, Any]]:
    return [
        {
            "run_id": run_id,
            "round_index": i + 1,
            "client": f"site-{k:03d}",
            "client_id": str(k),
            "node_id": str(10**18 + k),
            "num_examples": 200,
            "weight": 200.0,
            "payload_bytes": _payload(bits),
            "envelope_bytes": _ENVELOPE,
            "bits_asked": bits,
            "bits_source": "run",
            "bits_per_coordinate": bits,
            "uplink_mbps_estimate": 20.0,
            "train_seconds": float(measured.seconds[i, k]),
            "encode_seconds": 0.05,
            "decode_seconds": 0.02,
            "train_loss": 0.5,
            "vnmse": float(measured.vnmse[i, k]),
            "update_norm": 1.0,
            "device": "cpu",
            "outcome": "applied",
        }
        for i in range(sizes.rounds)
        for k in range(sizes.clients)
    ]


def _copy_clients(session: Session, first: str, run_id: str, bits: float) -> None:
    """Give a run the client rows of the first one, with bits of its own."""
    own = {"run_id": run_id, "payload_bytes": _payload(bits), "bits_asked": bits, "bits_per_coordinate": bits}
    columns = ClientRound.__table__.columns
    values = [literal(own[column.key], column.type) if column.key in own else column for column in columns]
    rows = select(*values).where(ClientRound.run_id == first)
    session.execute(insert(ClientRound).from_select([column.key for column in columns], rows))


def _payload(bits: float) -> int:
    return int(_DIM * bits / 8)
