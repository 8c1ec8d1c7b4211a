"""A run's writer and a real dashboard, which is killed in the middle of the run and started again."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest

from dashboard.remote import RemoteStore
from dashboard.spool import spools
from dashboard.store import ClientResult, RoundResult, RunNotFound, RunStart, RunStore
from dashboard.tokens import create_token
from fedcomp.home import home
from tests.support.postgres import SLOW_ON_POSTGRESQL


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
    return found


@contextmanager
def killed_at_the_end(database: str, port: int, log: Path) -> Iterator[None]:
    """Start a dashboard that demands a token, and kill it as a machine that loses power would."""
    command: Sequence[str] = ("dashboard", "--port", str(port), "--database", database, "--require-token")
    with log.open("a") as output:
        code = "from fedcomp.commands.main import main; main()"
        process = subprocess.Popen([sys.executable, "-c", code, *command], stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + 60
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            try:
                httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5)
                break
            except httpx.TransportError:
                time.sleep(0.05)
        yield
    finally:
        process.kill()
        process.wait()


def rounds_at(store: RunStore, run_id: str) -> list[int]:
    try:
        return [item.round_index for item in store.rounds_after(run_id)]
    except RunNotFound:
        return []


def until_all_told() -> None:
    deadline = time.monotonic() + 60
    while not all(spool.is_empty() for spool in spools(home() / "spool")):
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Each start of a dashboard takes seconds.
@pytest.mark.parametrize("url", SLOW_ON_POSTGRESQL, indirect=True)
def test_no_round_is_lost_and_none_waits(
    tmp_path: Path,
    url: str,
    port: int,
    start: RunStart,
    result: RoundResult,
    client: ClientResult,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dashboard.delivery.LONGEST_PAUSE_SECONDS", 0.5)
    log = tmp_path / "dashboard.log"
    with RunStore(url) as there:
        with there.writing() as session:
            monkeypatch.setenv("FEDCOMP_DASHBOARD_TOKEN", create_token(session, "server", "write")[0])
        with closing(RemoteStore(f"http://127.0.0.1:{port}")) as store:
            with killed_at_the_end(url, port, log):
                run_id = store.create_run(start)
                store.start_run(run_id)
                store.record_round(run_id, result, [client])
                until_all_told()
                assert rounds_at(there, run_id) == [1]
                # Killed with records on their way, so that some may have come without an answer.
                for index in range(2, 30):
                    store.record_round(run_id, result.model_copy(update={"round_index": index}), [client])
            began = time.monotonic()
            for index in range(30, 40):
                store.record_round(run_id, result.model_copy(update={"round_index": index}), [client])
            assert time.monotonic() - began < 5
            with killed_at_the_end(url, port, log):
                until_all_told()
                store.finish_run(run_id, "completed")
                until_all_told()
        run = there.find_run(run_id)
    assert (run.status, run.name, run.orphaned) == ("completed", start.name, False)
    assert [item.round_index for item in run.rounds] == list(range(1, 40))
    assert all(item.client_results == (client,) for item in run.rounds)
    assert not list((home() / "spool").iterdir())
