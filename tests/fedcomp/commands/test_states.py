"""`fedcomp runs` and `show` say what the dashboard says of a run's state."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import get_args

import pytest
from typer.testing import CliRunner

from dashboard.models import Run
from dashboard.queries import ORPHANED_AFTER
from dashboard.schemas import FinalStatus, ShownStatus
from dashboard.store import RunStart, RunStore
from fedcomp.commands.main import app
from fedcomp.home import database_url
from tests.support.dashboard_server import Served, serving

STATES = get_args(ShownStatus)


@pytest.fixture
def runs() -> dict[str, str]:
    """Make a run in each state; return state to id."""
    start = RunStart(
        name="mine", task="t", data_label="d", compressor="drive", strategy="fedavg", seed=1, num_rounds=3, dim=9,
        config={}, environment={},
    )  # fmt: skip
    with RunStore(database_url()) as store:
        made = {state: store.create_run(start) for state in STATES}
        for state in ("running", "orphaned"):
            store.start_run(made[state])
        for ended in get_args(FinalStatus):
            store.finish_run(made[ended], ended)
        with store.writing() as session:
            silent = datetime.now(UTC) - ORPHANED_AFTER - timedelta(seconds=1)
            session.get_one(Run, made["orphaned"]).heartbeat_at = silent
    return made


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(database_url()) as running:
        yield running


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_all_agree(runs: dict[str, str], served: Served) -> None:
    listed = {line.split("│")[1].strip(): line for line in invoke("runs").splitlines() if line.startswith("│")}
    for state, run_id in runs.items():
        assert f" {state} " in listed[run_id].replace("│", " ")
        assert f"status: {state}" in invoke("show", run_id)
        assert f"badge-{state}" in served.client.get(f"/runs/{run_id}").text
        found = served.client.get("/api/v1/runs", params={"status": state}).json()["runs"]
        assert [run["id"] for run in found] == [run_id]
    metrics = served.client.get("/metrics").text
    for state in STATES:
        assert f'fedcomp_runs{{status="{state}"}} 1\n' in metrics


def test_an_orphaned_run_can_be_taken_up_again(runs: dict[str, str]) -> None:
    said = invoke("show", runs["orphaned"])
    assert "no sign of life since " in said
    assert f"`fedcomp simulate --resume {runs['orphaned']}` takes it up again" in said
    with RunStore(database_url()) as store:
        store.request_stop(runs["orphaned"])
    assert "asked to stop" not in invoke("show", runs["orphaned"])  # nobody is there to do it
