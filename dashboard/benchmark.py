"""How long the queries behind the pages take on many runs: ``python -m dashboard.benchmark`` makes them and measures.

The numbers are drawn at random; their sizes and spreads are those of real runs.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import insert
from sqlalchemy.orm import Session

from dashboard import digests, queries
from dashboard.clients import client_summary
from dashboard.compare import curves, pareto
from dashboard.groups import config_diff, group_curves, group_labels
from dashboard.models import ClientRound, Round, Run
from dashboard.run_list import choices, list_runs
from dashboard.schemas_compare import RunFilter
from dashboard.store import RunStore

_SPECS = ("identity", "eden:bits=1", "eden:bits=2", "eden:bits=4", "qsgd:bits=4", "topk:fraction=0.05", "sign", "drive")
_DIM = 1_206_590
_BEGIN = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Timing:
    """What was asked, and the seconds that the fastest and the slowest of some tries took."""

    question: str
    fastest: float
    slowest: float


def fill(store: RunStore, *, runs: int, rounds: int, clients: int, seed: int) -> None:
    """Add `runs` finished runs of `rounds` rounds with `clients` clients each; the same ones for the same `seed`."""
    for number in range(runs):
        random = np.random.default_rng((seed, number))
        with store.writing() as session:
            _add_run(session, number, rounds, clients, random)


def measure(store: RunStore, *, tries: int = 3) -> Iterator[Timing]:
    """Give the times of what the Compare, Run and Clients pages ask, over all runs that there are."""
    with store.reading() as session:
        page = list_runs(session, RunFilter(archived=None), limit=500)
    ids = [run.id for run in page.runs]
    for question, ask in _questions(ids):
        yield _time(question, store, ask, tries)


def main() -> None:
    """Make the data set where it is not there yet, measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", help="URL; an empty database is filled. Default: a temporary SQLite file.")
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=1500)
    parser.add_argument("--clients", type=int, default=10)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        RunStore(arguments.database or f"sqlite:///{folder}/runs.db") as store,
    ):
        if not store.list_runs(limit=1):
            began = time.perf_counter()
            fill(store, runs=arguments.runs, rounds=arguments.rounds, clients=arguments.clients, seed=1)
            sys.stdout.write(f"made the data set in {time.perf_counter() - began:.0f} s\n")
        for timing in measure(store):
            sys.stdout.write(f"{timing.question:40}{timing.fastest:8.3f} s to {timing.slowest:.3f} s\n")
            sys.stdout.flush()


def _questions(ids: Sequence[str]) -> Iterator[tuple[str, Callable[[Session], Any]]]:
    yield "Compare: page of 50 runs", lambda s: list_runs(s, RunFilter(), limit=50)
    yield "Compare: page of all runs", lambda s: list_runs(s, RunFilter(), limit=500)
    yield "Compare: runs by bits and name", lambda s: list_runs(s, RunFilter(min_bits=1.5, max_bits=3, name_prefix="b"))
    yield "Compare: menus", choices
    yield "Compare: accuracy by round, 20 runs", lambda s: curves(s, ids[:20], "round", "accuracy")
    yield "Compare: accuracy by round, all runs", lambda s: curves(s, ids, "round", "accuracy", max_points=200)
    yield "Compare: accuracy by total MB, all runs", lambda s: curves(s, ids, "total_mb", "accuracy", max_points=200)
    yield "Compare: vNMSE by uplink MB, all runs", lambda s: curves(s, ids, "uplink_mb", "vnmse", max_points=200)
    yield "Compare: all runs by compressor", lambda s: _grouped(s, ids)
    yield "Compare: Pareto, all runs", lambda s: pareto(s, ids, "total_mb", "best")
    yield "Compare: settings that differ", lambda s: config_diff(s, ids)
    yield "Run: head", lambda s: queries.info(s, queries.resolve(s, ids[0]))
    yield "Run: last 200 rounds", lambda s: queries.round_rows(s, ids[0], limit=200, newest_first=True)
    yield "Run: clients of a round", lambda s: queries.client_rows(s, ids[0], 700)
    yield "Run: bits up and down", lambda s: [curves(s, ids[:1], "round", y) for y in ("bits", "downlink_bits")]
    yield "Run: its clients", lambda s: client_summary(s, ids[:1])
    yield "Clients: 20 runs", lambda s: client_summary(s, ids[:20])
    yield "Clients: all runs", lambda s: client_summary(s, ids)


def _grouped(session: Session, ids: Sequence[str]) -> Any:
    found = curves(session, ids, "total_mb", "accuracy", max_points=200)
    return group_curves(found, group_labels(session, ids, "compressor"), max_points=200)


def _time(question: str, store: RunStore, ask: Callable[[Session], Any], tries: int) -> Timing:
    seconds = []
    for _ in range(tries):
        began = time.perf_counter()
        with store.reading() as session:
            ask(session)
        seconds.append(time.perf_counter() - began)
    return Timing(question, min(seconds), max(seconds))


def _add_run(session: Session, number: int, rounds: int, clients: int, random: np.random.Generator) -> None:
    spec = _SPECS[number % len(_SPECS)]
    bits = float(random.uniform(1, 8))
    began = _BEGIN + timedelta(hours=number)
    run_id = f"{began:%Y%m%d-%H%M%S}-{number:04d}"
    names = [f"site-{client:03d}" for client in range(clients)]
    index = np.arange(1, rounds + 1)
    accuracy = 0.85 * (1 - np.exp(-index / 200)) + random.normal(0, 0.005, rounds)
    vnmse = random.uniform(0.1, 0.2, (rounds, clients))
    seconds = random.uniform(0.5, 3, (rounds, clients))
    payload = int(_DIM * bits / 8)
    session.execute(
        insert(Run),
        {
            "id": run_id,
            "name": f"bench/{spec}/seed-{number // len(_SPECS)}",
            "task": "emnist",
            "data_label": "made up",
            "compressor": spec,
            "strategy": "fedavg",
            "seed": str(number // len(_SPECS)),
            "num_rounds": rounds,
            "dim": _DIM,
            "config": {"compressor": spec, "seed": number // len(_SPECS), "learning-rate": 0.03, "clients": clients},
            "environment": {},
            "status": "completed",
            "created_at": began,
            "started_at": began,
            "finished_at": began + timedelta(seconds=3 * rounds),
        },
    )
    session.execute(
        insert(Round),
        [
            {
                "run_id": run_id,
                "round_index": i + 1,
                "accuracy": float(accuracy[i]),
                "loss": float(1 - accuracy[i]),
                "train_loss": float(1.1 - accuracy[i]),
                "asked": clients,
                "clients": clients,
                "rejected": 0,
                "uplink_payload_bytes": clients * payload,
                "uplink_envelope_bytes": clients * 700,
                "downlink_payload_bytes": clients * payload,
                "downlink_envelope_bytes": clients * 700,
                "bits_per_coordinate": bits,
                "downlink_bits_per_coordinate": bits,
                "update_norm": 1.0,
                "seconds": 3.0,
                "status": "ok",
                "finished_at": began + timedelta(seconds=3 * (i + 1)),
                "vnmse": float(vnmse[i].mean()),
            }
            for i in range(rounds)
        ],
    )
    session.execute(
        insert(ClientRound),
        [
            {
                "run_id": run_id,
                "round_index": i + 1,
                "client": name,
                "client_id": str(k),
                "node_id": str(10**18 + k),
                "num_examples": 200,
                "weight": 200.0,
                "payload_bytes": payload,
                "envelope_bytes": 700,
                "bits_asked": bits,
                "bits_source": "run",
                "bits_per_coordinate": bits,
                "uplink_mbps_estimate": 20.0,
                "train_seconds": float(seconds[i, k]),
                "encode_seconds": 0.05,
                "decode_seconds": 0.02,
                "train_loss": 0.5,
                "vnmse": float(vnmse[i, k]),
                "update_norm": 1.0,
                "device": "cpu",
                "outcome": "applied",
                "round_asked": i + 1,
            }
            for i in range(rounds)
            for k, name in enumerate(names)
        ],
    )
    digests.seal(session, run_id)


if __name__ == "__main__":
    main()
