from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from dashboard import benchmark
from dashboard.benchmark import CALLS, CallFailed, NothingToMeasure, measure
from dashboard.clients import client_summary
from dashboard.made_up_runs import fill
from dashboard.store import RunStore


def test_the_data_set_is_what_was_asked_for(store: RunStore) -> None:
    ids = list(fill(store, runs=3, rounds=4, clients=2, seed=1))
    runs = [store.find_run(run_id) for run_id in ids]
    assert [run.id for run in store.list_runs()] == ids[::-1]
    assert [(run.status, run.rounds_done, len(run.rounds[3].client_results)) for run in runs] == [
        ("completed", 4, 2)
    ] * 3
    for run in runs:
        for item in run.rounds:
            rows = item.client_results
            assert sum(row.payload_bytes for row in rows) == item.uplink_payload_bytes
            assert {row.bits_per_coordinate for row in rows} == {item.bits_per_coordinate}
    assert len({run.mean_bits_per_coordinate for run in runs}) == 3
    with store.reading() as session:
        summed = client_summary(session, ids)
    assert [(client.runs, client.rounds) for client in summed] == [(3, 12)] * 2
    assert store.digest_ended() == 0


def test_the_same_seed_makes_the_same_runs(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        with RunStore(f"sqlite:///{tmp_path / name}.db") as store:
            found.append([store.find_run(run_id) for run_id in fill(store, runs=2, rounds=2, clients=1, seed=5)])
    assert found[0] == found[1]


def test_every_call_is_answered_or_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCOMP_DASHBOARD_REQUIRE_TOKEN", "1")  # a setting of other dashboards
    # One dashboard for all: each takes seconds to start.
    calls = tuple(call for group in benchmark._CALLS for call in group)
    monkeypatch.setattr(benchmark, "_CALLS", ((*calls, ("nothing", "/nothing")),))
    database = f"sqlite:///{tmp_path / 'runs.db'}"
    with RunStore(database) as store:
        list(fill(store, runs=2, rounds=3, clients=2, seed=1))
    measured = measure(database, tries=2)
    timings = list(islice(measured, CALLS))
    with pytest.raises(CallFailed, match="/nothing answered 404"):
        next(measured)
    assert [(timing.call, timing.address.split("/")[1][:2]) for timing in timings] == [
        (call, address.split("/")[1][:2]) for call, address in calls
    ]
    assert len({timing.address for timing in timings}) == CALLS
    for timing in timings:
        assert 0 < timing.warm <= timing.slowest
        assert timing.first > 0
        assert timing.kilobytes > 0


def test_what_cannot_be_measured_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    database = f"sqlite:///{tmp_path / 'runs.db'}"
    with pytest.raises(NothingToMeasure):
        next(measure(database))
    with RunStore(database) as store:
        list(fill(store, runs=1, rounds=1, clients=1, seed=1))
    monkeypatch.setattr(benchmark, "_SERVER", "raise SystemExit('no network')")
    with pytest.raises(CallFailed, match="did not start: no network"):
        next(measure(database))
