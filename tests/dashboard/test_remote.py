from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from dashboard.ingest import StartRun
from dashboard.remote import RemoteStore
from dashboard.spool import spools
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from fedcomp.errors import ConfigError
from fedcomp.home import database_url, home
from tests.support.ingest_server import Dashboard

KILLED = """
import os, sys
from dashboard.remote import RemoteStore
from dashboard.schemas import RoundResult, RunStart
store = RemoteStore(sys.argv[1])
run_id = store.create_run(RunStart(name="killed", task="t", data_label="d", compressor="identity", strategy="fedavg",
                                   seed=1, num_rounds=5, dim=8, config={}, environment={}))
store.start_run(run_id)
for index in range(1, 4):
    store.record_round(run_id, RoundResult(round_index=index, clients=0, uplink_payload_bytes=0,
        uplink_envelope_bytes=0, downlink_payload_bytes=0, downlink_envelope_bytes=0, bits_per_coordinate=1.0,
        seconds=0.1), [])
sys.stdout.write(run_id)
sys.stdout.flush()
os.kill(os.getpid(), 9)
"""


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.delivery.FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr("dashboard.delivery.LONGEST_PAUSE_SECONDS", 0.2)
    monkeypatch.delenv("FEDCOMP_DASHBOARD_TOKEN", raising=False)


@pytest.fixture
def dashboard(tmp_path: Path) -> Iterator[Dashboard]:
    """Return a dashboard that is off, and has a port that nobody else has."""
    with RunStore(f"sqlite:///{tmp_path / 'dashboard.db'}") as store:
        made = Dashboard(store)
        with made.on():
            pass
        yield made


@contextmanager
def opened(dashboard: Dashboard) -> Iterator[RemoteStore]:
    with closing(RemoteStore(dashboard.url)) as store:
        yield store


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)


def delivered() -> bool:
    return all(spool.is_empty() for spool in spools(home() / "spool"))


def play(store: RunStore, run_id: str, result: RoundResult, clients: list[ClientResult], first: int, last: int) -> None:
    for index in range(first, last + 1):
        store.record_round(run_id, result.model_copy(update={"round_index": index}), clients)
        store.set_checkpoint(run_id, f"/round-{index}")


def same(dashboard: Dashboard, run_id: str) -> None:
    """Check that both databases say the same of a run."""
    with RunStore(database_url()) as local:
        here, there = (
            store.find_run(run_id).model_copy(update={"heartbeat_at": None}) for store in (local, dashboard.store)
        )
    assert there.model_dump_json() == here.model_dump_json()


def test_an_address_opens_a_remote_store_and_a_database_a_plain_one(dashboard: Dashboard) -> None:
    with RunStore.open(dashboard.url) as remote, RunStore.open(database_url()) as local:
        assert isinstance(remote, RemoteStore)
        assert type(local) is RunStore


def test_a_run_reaches_the_dashboard(
    dashboard: Dashboard, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    with dashboard.on():
        with opened(dashboard) as store:
            run_id = store.create_run(start)
            store.start_run(run_id)
            play(store, run_id, result, [client], 1, 3)
            until(lambda: len(dashboard.store.rounds_after(run_id)) == 3)
            store.set_stop_reason(run_id, "patience")
            store.finish_run(run_id, "completed")
        same(dashboard, run_id)
    assert not list((home() / "spool").iterdir())


def test_a_dashboard_that_dies_mid_run_gets_everything_when_it_is_back(
    dashboard: Dashboard, start: RunStart, result: RoundResult, client: ClientResult, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fedcomp.dashboard")
    with opened(dashboard) as store:
        run_id = store.create_run(start)
        store.start_run(run_id)
        with dashboard.on():
            play(store, run_id, result, [client], 1, 3)
            until(delivered)
            caplog.clear()  # it was off when the run began
        play(store, run_id, result, [client], 4, 6)
        until(lambda: "cannot be reached" in caplog.text)
        assert len(dashboard.store.rounds_after(run_id)) == 3
        play(store, run_id, result, [client], 7, 9)
        with dashboard.on():
            until(delivered)
            until(lambda: "has all records again" in caplog.text)
            same(dashboard, run_id)
    assert caplog.text.count("cannot be reached") == 1


def test_an_unreachable_dashboard_costs_a_round_nothing(
    dashboard: Dashboard, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    with opened(dashboard) as store:
        run_id = store.create_run(start)
        store.start_run(run_id)
        began = time.monotonic()
        play(store, run_id, result, [client], 1, 20)
        assert time.monotonic() - began < 10
        assert not store.stop_requested(run_id)
        store.finish_run(run_id, "completed")
        closing_began = time.monotonic()
    assert time.monotonic() - closing_began < 6


def test_what_a_killed_server_app_left_is_delivered_by_the_next(dashboard: Dashboard) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, dashboard.url], capture_output=True, text=True, check=False)
    assert done.returncode == -9, done.stderr
    with dashboard.on(), opened(dashboard):
        until(delivered)
        same(dashboard, done.stdout)
        assert [item.round_index for item in dashboard.store.rounds_after(done.stdout)] == [1, 2, 3]


def test_a_lost_reply_means_twice_sent_and_once_kept(
    dashboard: Dashboard, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    dashboard.lose_replies = 2
    with opened(dashboard) as store:
        run_id = store.create_run(start)
        store.start_run(run_id)
        play(store, run_id, result, [client], 1, 3)
        store.delete_rounds_after(run_id, 1)
        play(store, run_id, result, [], 2, 2)
        with dashboard.on():
            until(delivered)
        same(dashboard, run_id)
    assert len(dashboard.batches) >= 3


def test_a_resumed_run_that_the_dashboard_never_saw_is_told_whole(
    dashboard: Dashboard, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    with RunStore(database_url()) as local:
        run_id = local.create_run(start)
        local.start_run(run_id)
        play(local, run_id, result, [client], 1, 4)
        local.finish_run(run_id, "failed", "power")
    with dashboard.on(), opened(dashboard) as store:
        store.delete_rounds_after(run_id, 2)
        store.start_run(run_id, num_rounds=5)
        play(store, run_id, result, [client], 3, 5)
        store.finish_run(run_id, "completed")
    same_but_for_start = dashboard.store.find_run(run_id)
    assert [item.round_index for item in same_but_for_start.rounds] == [1, 2, 3, 4, 5]
    assert (same_but_for_start.status, same_but_for_start.num_rounds) == ("completed", 5)


def test_somebody_at_the_dashboard_can_end_the_run(dashboard: Dashboard, start: RunStart, result: RoundResult) -> None:
    with dashboard.on(), opened(dashboard) as store:
        run_id = store.create_run(start)
        store.start_run(run_id)
        play(store, run_id, result, [], 1, 1)
        until(delivered)
        assert not store.stop_requested(run_id)
        dashboard.store.request_stop(run_id)
        play(store, run_id, result, [], 2, 2)
        until(delivered)
        until(lambda: store.stop_requested(run_id))
        with RunStore(database_url()) as local:
            assert local.stop_requested(run_id)


def test_an_old_request_does_not_end_a_resumed_run(
    dashboard: Dashboard, start: RunStart, result: RoundResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.delivery.MOST_EVENTS", 1)
    with dashboard.on():
        with opened(dashboard) as store:
            run_id = store.create_run(start)
            store.start_run(run_id)
            until(delivered)
        dashboard.store.request_stop(run_id)
    with opened(dashboard) as store:
        play(store, run_id, result, [], 1, 3)  # told before the new start, one by one: each answer says "stop"
        store.start_run(run_id)
        with dashboard.on():
            until(delivered)
        assert not store.stop_requested(run_id)
    assert isinstance(dashboard.batches[-1].events[-1], StartRun)


@pytest.mark.parametrize("status", [401, 403, 404, 422, 500, 503])
def test_an_answer_that_is_no_yes_is_told_once_and_tried_again(
    dashboard: Dashboard, start: RunStart, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    dashboard.answer = status
    with dashboard.on(), opened(dashboard) as store:
        run_id = store.create_run(start)
        until(lambda: len(dashboard.authorizations) >= 3)
        assert caplog.text.count(f"answered {status} 'as the test wants'") == 1
        assert ("see FEDCOMP_DASHBOARD_TOKEN" in caplog.text) == (status in (401, 403))
        dashboard.answer = None
        until(delivered)
        assert dashboard.store.summary(run_id).status == "queued"


def test_something_else_that_says_yes_is_not_believed(
    dashboard: Dashboard, start: RunStart, caplog: pytest.LogCaptureFixture
) -> None:
    dashboard.answer = 200
    with dashboard.on(), opened(dashboard) as store:
        store.create_run(start)
        until(lambda: "does not answer like a fedcomp dashboard" in caplog.text)
        assert not delivered()


def test_a_run_that_is_refused_holds_no_other_up(
    dashboard: Dashboard, start: RunStart, caplog: pytest.LogCaptureFixture
) -> None:
    with dashboard.on(), opened(dashboard) as store:
        first = store.create_run(start)
        until(delivered)
        with dashboard.store.writing() as session:
            session.connection().exec_driver_sql("DELETE FROM runs")
        store.start_run(first)
        second = store.create_run(start)
        until(delivered)
        assert dashboard.store.summary(second).status == "queued"
    assert f"refused a record of run {first}: RunNotFound" in caplog.text


def test_a_batch_that_is_too_large_is_sent_in_pieces(
    dashboard: Dashboard, start: RunStart, result: RoundResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = dashboard.answer_to
    monkeypatch.setattr(
        dashboard, "answer_to", lambda path, body: (413, "") if len(body) > 1500 else answer(path, body)
    )
    with opened(dashboard) as store:
        run_id = store.create_run(start)
        play(store, run_id, result, [], 1, 5)
        with dashboard.on():
            until(delivered)
        assert len(dashboard.store.rounds_after(run_id)) == 5
    assert {len(batch.events) for batch in dashboard.batches} == {1}


def test_the_token_comes_from_the_environment_or_the_file(
    dashboard: Dashboard, start: RunStart, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent() -> str | None:
        with dashboard.on(), opened(dashboard) as store:
            store.create_run(start)
            until(delivered)
        return dashboard.authorizations[-1]

    assert sent() is None
    (home() / "dashboard-token").write_text("from-the-file\n")
    assert sent() == "Bearer from-the-file"
    monkeypatch.setenv("FEDCOMP_DASHBOARD_TOKEN", "from-the-environment")
    assert sent() == "Bearer from-the-environment"
    monkeypatch.setenv("FEDCOMP_DASHBOARD_TOKEN", "two\nlines")
    with pytest.raises(ConfigError, match=r"FEDCOMP_DASHBOARD_TOKEN holds no token"):
        RemoteStore(dashboard.url)


@pytest.mark.parametrize(
    "url",
    ["https://", "ftp://host", "https://host/?x=1", "https://host/#x", "https://user:secret@host", "https://[::1"],
)
def test_an_address_that_cannot_be_used_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="dashboard address") as refused:
        RemoteStore(url)
    assert "secret" not in str(refused.value)


def test_a_token_on_an_open_line_is_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    RemoteStore("http://192.0.2.1:9").close()
    assert "not encrypted" in caplog.text


def test_a_disk_that_refuses_costs_the_record_not_the_round(
    dashboard: Dashboard, start: RunStart, caplog: pytest.LogCaptureFixture
) -> None:
    (home() / "spool").write_text("a file where the folder should be")
    with opened(dashboard) as store:
        run_id = store.create_run(start)
        store.start_run(run_id)
        store.finish_run(run_id, "completed")
    assert "is lost to it, not to this machine" in caplog.text


def test_signs_of_life_do_not_queue_up(dashboard: Dashboard, start: RunStart) -> None:
    with opened(dashboard) as store:
        run_id = store.create_run(start)
        for _ in range(5):
            store.beat(run_id)
        (spool,) = spools(home() / "spool")
        assert len(spool.pending(100).lines) == 1
        with dashboard.on():
            until(delivered)
            store.beat(run_id)
            until(delivered)
            assert dashboard.store.summary(run_id).heartbeat_at is not None
