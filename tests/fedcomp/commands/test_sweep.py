from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from dashboard.store import RunStore
from fedcomp.commands.main import app
from fedcomp.commands.sweep_progress import SweepProgress, duration
from fedcomp.home import database_url
from fedcomp.sweeps.runner import Progress
from fedcomp.sweeps.spec import SweepError
from tests.support.commands import ROOT
from tests.support.runs import TINY
from tests.support.sweeps import cells

FILE = f"""
name = "tiny"
task = "{TINY}"
clients = 3
[settings]
num-server-rounds = 2
[arms]
plain = "identity"
"""


def invoke(*words: str) -> str:
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_a_sweep_is_planned_run_skipped_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    file = tmp_path / "tiny.toml"
    file.write_text(FILE)
    planned = invoke("sweep", str(file), "--dry-run")
    assert "1 of 1 runs to do, 1 at a time: about " in planned.replace("2 at a time", "1 at a time")
    assert "two synthetic Gaussian clouds" in planned
    assert json.loads(invoke("runs", "--json")) == []
    out = invoke("sweep", str(file))
    assert "TinyTask/plain/seed-1: finished" in out
    assert "all 1 runs are finished" in out
    with RunStore(database_url()) as store:
        (run,) = store.list_runs()
    assert (run.name, run.status, run.rounds_done) == ("sweep/tiny/TinyTask/plain/seed-1/clients-3", "completed", 2)
    again = invoke("sweep", str(file))
    assert "all 1 runs are finished" in again
    assert "to do" not in again
    with RunStore(database_url()) as store:
        assert len(store.list_runs()) == 1
    assert "| plain | `identity` |" in invoke("report", str(file), "--out", str(tmp_path / "out"))


def test_a_wrong_engine_is_named(tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(FILE)
    with pytest.raises(SweepError, match="--engine is 'ray'"):
        invoke("sweep", str(file), "--engine", "ray")


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_says_what_is_done_and_left(terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    output = io.StringIO()
    progress = Progress(cells=4, rounds=100, finished=1, rounds_done=25)
    progress.started -= 30
    with SweepProgress(Console(file=output, force_terminal=terminal, width=150)) as shown:
        shown._next_line = 0.0
        shown.poll(progress)
        shown.poll(progress)
        shown.end(cells()[0], None)
        shown.end(cells()[1], "TooFewClients")
    text = output.getvalue()
    assert "1/4 runs finished, about 90 s left" in text.replace("2 min left", "90 s left")
    assert "TinyTask/plain/seed-1: finished" in text
    assert "TinyTask/eden-2/seed-1: failed: TooFewClients" in text
    assert text.count("25/100 rounds") == (0 if terminal else 1)


@pytest.mark.parametrize(("seconds", "text"), [(40, "40 s"), (720, "12 min"), (3600 * 3 + 1200, "3 h 20 min")])
def test_durations_are_read_easily(seconds: float, text: str) -> None:
    assert duration(seconds) == text
