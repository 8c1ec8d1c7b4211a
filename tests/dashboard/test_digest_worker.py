from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from sqlalchemy import delete, func, select
from sqlalchemy.exc import OperationalError

from dashboard.digest_worker import making_digests
from dashboard.models import RunDigest
from dashboard.store import RunStart, RunStore
from tests.support.dashboard_server import serving


def digests(store: RunStore) -> int:
    with store.reading() as session:
        return session.scalar(select(func.count()).select_from(RunDigest)) or 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def without(store: RunStore, start: RunStart) -> str:
    """Return a run as earlier releases left them."""
    run_id = store.create_run(start)
    store.finish_run(run_id, "completed")
    with store.writing() as session:
        session.execute(delete(RunDigest))
    return run_id


def test_a_dashboard_makes_what_is_missing(url: str, store: RunStore, without: str) -> None:
    assert digests(store) == 0
    with serving(url):
        wait_until(lambda: digests(store) == 1)


def test_it_looks_again(store: RunStore, without: str, start: RunStart) -> None:
    with making_digests(store, threading.Event(), every=0.05):
        wait_until(lambda: digests(store) == 1)
        with store.writing() as session:
            session.execute(delete(RunDigest))
        wait_until(lambda: digests(store) == 1)


def test_a_busy_database_is_tried_again(store: RunStore, without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, tries = RunStore.digest_ended, []

    def busy_once(self: RunStore, *, until: Callable[[], bool]) -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OperationalError("BEGIN IMMEDIATE", None, Exception("database is locked"))
        return real(self, until=until)

    monkeypatch.setattr(RunStore, "digest_ended", busy_once)
    with making_digests(store, threading.Event(), every=0.05):
        wait_until(lambda: digests(store) == 1)
    assert len(tries) > 1


def test_it_ends_at_once(store: RunStore) -> None:
    closing, before = threading.Event(), threading.active_count()
    with making_digests(store, closing):
        assert threading.active_count() == before + 1
        closing.set()
        wait_until(lambda: threading.active_count() == before)
