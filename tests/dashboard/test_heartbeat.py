from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update

from dashboard.heartbeat import heartbeat
from dashboard.models import Run
from dashboard.schemas import ShownStatus
from dashboard.store import RoundResult, RunStart, RunStore


def age(store: RunStore, run_id: str, **columns: timedelta | None) -> None:
    now = datetime.now(UTC)
    values = {name: None if old is None else now - old for name, old in columns.items()}
    with store.writing() as session:
        session.execute(update(Run).where(Run.id == run_id).values(**values))


def test_a_run_lives_while_the_block_lasts(store: RunStore, start: RunStart) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    age(store, run_id, heartbeat_at=timedelta(hours=1))
    assert store.summary(run_id).shown_status == "orphaned"
    with heartbeat(store, lambda: run_id, every=0.02):
        deadline = time.monotonic() + 20
        while store.summary(run_id).orphaned:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert not any(thread.name == "fedcomp-heartbeat" for thread in threading.enumerate())


def test_what_cannot_be_noted_is_left_out(store: RunStore) -> None:
    asked = []

    def run_id() -> str:
        asked.append(1)
        return "" if len(asked) < 3 else "nobody"

    with heartbeat(store, run_id, every=0.01):
        deadline = time.monotonic() + 20
        while len(asked) < 6:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize(
    ("old", "shown"),
    [
        ({"heartbeat_at": timedelta(minutes=4)}, "running"),
        ({"heartbeat_at": timedelta(minutes=6)}, "orphaned"),
        ({"heartbeat_at": None, "started_at": timedelta(minutes=4)}, "running"),
        ({"heartbeat_at": None, "started_at": timedelta(minutes=6)}, "orphaned"),
    ],
)
def test_without_a_sign_of_life_a_running_run_is_orphaned(
    store: RunStore, start: RunStart, old: dict[str, timedelta | None], shown: ShownStatus
) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    age(store, run_id, **old)
    assert store.summary(run_id).shown_status == shown
    store.finish_run(run_id, "failed")
    assert store.summary(run_id).shown_status == "failed"


def test_a_round_is_a_sign_of_life(store: RunStore, start: RunStart, result: RoundResult) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    age(store, run_id, heartbeat_at=timedelta(hours=1))
    store.record_round(run_id, result, [])
    assert store.summary(run_id).shown_status == "running"
