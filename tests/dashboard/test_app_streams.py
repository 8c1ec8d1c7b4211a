from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest

from dashboard.store import RoundResult, RunStart, RunStore
from fedcomp.home import log_file
from tests.support.dashboard_server import Served, serving


@pytest.fixture
def url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """SQLite alone: what the databases differ in is tested with the store and the API."""
    return f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'runs.db')}"


@pytest.fixture
def served(url: str) -> Iterator[Served]:
    with serving(url, heartbeat_seconds=0.3) as running:
        yield running


@pytest.fixture
def run_id(store: RunStore, start: RunStart) -> str:
    made = store.create_run(start)
    store.start_run(made)
    return made


def events(answer: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield events; comments have the name ``comment``."""
    found: dict[str, Any] = {}
    for line in answer.iter_lines():
        if line.startswith(":"):
            yield {"event": "comment"}
        elif line:
            name, _, value = line.partition(": ")
            found[name] = json.loads(value) if name == "data" else value
        elif "event" in found:
            yield found
            found = {}


def test_rounds_come_as_they_are_stored(served: Served, store: RunStore, run_id: str, result: RoundResult) -> None:
    store.record_round(run_id, result, [])
    with served.client.stream("GET", f"/runs/{run_id}/events") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        told = events(answer)
        first = next(told)
        assert (first["event"], first["id"]) == ("rounds", "1")
        store.record_round(run_id, result.model_copy(update={"round_index": 2, "accuracy": float("nan")}), [])
        second = next(told)
        assert (second["event"], second["id"]) == ("rounds", "2")
        assert second["data"]["points"][0]["accuracy"] is None
        assert 'data-round="2"' in second["data"]["rows"]
        assert next(told)["event"] == "comment"
        store.finish_run(run_id, "completed")
        last = next(each for each in told if each["event"] != "comment")
        assert last["event"] == "run"
        assert "badge-completed" in last["data"]["head"]


def test_a_stream_goes_on_after_the_last_event(
    served: Served, store: RunStore, run_id: str, result: RoundResult
) -> None:
    for index in range(4):
        store.record_round(run_id, result.model_copy(update={"round_index": index}), [])
    path = f"/runs/{run_id}/events"
    for headers, query, expected in (
        ({"Last-Event-ID": "1"}, "", [2, 3]),
        ({}, "?after=2", [3]),
        ({"Last-Event-ID": "2"}, "?after=0", [3]),
        ({"Last-Event-ID": "nonsense"}, "?after=0", [1, 2, 3]),
        ({"Last-Event-ID": "--2"}, "?after=0", [1, 2, 3]),
        ({"Last-Event-ID": "-2"}, "?after=0", [0, 1, 2, 3]),
    ):
        with served.client.stream("GET", path + query, headers=headers) as answer:
            assert [point["round"] for point in next(events(answer))["data"]["points"]] == expected


def test_many_rounds_come_in_pieces(served: Served, store: RunStore, run_id: str, result: RoundResult) -> None:
    for index in range(120):
        store.record_round(run_id, result.model_copy(update={"round_index": index}), [])
    with served.client.stream("GET", f"/runs/{run_id}/events") as answer:
        told = events(answer)
        assert [next(told)["id"], next(told)["id"]] == ["99", "119"]


def test_rounds_that_a_resumed_run_took_back(served: Served, store: RunStore, run_id: str, result: RoundResult) -> None:
    for index in range(3):
        store.record_round(run_id, result.model_copy(update={"round_index": index}), [])
    with served.client.stream("GET", f"/runs/{run_id}/events?after=2") as answer:
        told = events(answer)
        assert next(told)["event"] == "run"
        store.delete_rounds_after(run_id, 0)
        assert next(each for each in told if each["event"] == "reset")["id"] == "0"
        assert list(told) == []


def test_a_deleted_run_is_said_to_be_gone(served: Served, store: RunStore, run_id: str) -> None:
    store.finish_run(run_id, "completed")
    with served.client.stream("GET", f"/runs/{run_id}/events") as answer:
        told = events(answer)
        next(told)
        assert served.client.delete(f"/api/v1/runs/{run_id}").status_code == 204
        assert next(each for each in told if each["event"] != "comment")["event"] == "gone"
    assert served.client.get(f"/runs/{run_id}/events").status_code == 404


def test_the_log_comes_as_it_is_written(served: Served, store: RunStore, start: RunStart, run_id: str) -> None:
    path = log_file(str(start.flower_run_id))
    path.parent.mkdir()
    with served.client.stream("GET", f"/runs/{run_id}/events") as answer:
        told = (each for each in islice(events(answer), 40) if each["event"] != "comment")
        assert next(told)["event"] == "run"
        with path.open("w") as file:
            for line in ("\x1b[92mINFO\x1b[0m one", "two <b>"):
                file.write(f"{line}\n")
                file.flush()
                news = next(told)
                assert news["event"] == "log"
                assert "id" not in news  # where the browser goes on after a break is told by the rounds
        assert news["data"] == {"text": "INFO one\ntwo <b>"}
        store.finish_run(run_id, "completed")
        assert next(told)["event"] == "run"


def test_the_list_tells_of_new_runs_and_rounds(
    served: Served, store: RunStore, start: RunStart, result: RoundResult
) -> None:
    with served.client.stream("GET", "/events") as answer:
        told = (each for each in events(answer) if each["event"] != "comment")
        assert next(told)["event"] == "hello"
        made = store.create_run(start)
        assert next(told)["event"] == "runs"
        store.start_run(made)
        assert next(told)["event"] == "runs"
        store.record_round(made, result, [])
        assert next(told)["event"] == "runs"
