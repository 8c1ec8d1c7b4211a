"""`fedcomp runs`, `show`, `compressors` and the progress lines, on a store filled by a run in this process."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from dashboard.store import RunStore
from fedcomp.commands.main import app, main
from fedcomp.commands.progress import RunProgress
from fedcomp.commands.simulate import print_verdict
from fedcomp.home import database_url, home
from tests.support.runs import run_in_process, settings


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_an_empty_home_says_how_to_start() -> None:
    assert invoke("runs") == f"no runs in {home()} yet; start one with `fedcomp simulate`\n"
    assert json.loads(invoke("runs", "--json")) == []


def test_runs_are_listed_and_shown() -> None:
    run, _ = run_in_process(settings(name="first", compressor="eden:bits=1"))
    listed = invoke("runs")
    for word in (run.id, "first", "eden:bits=1", "completed", "3/3", str(home())):
        assert word in listed
    (found,) = json.loads(invoke("runs", "--json"))
    assert (found["id"], found["status"], found["seed"]) == (run.id, "completed", "1")
    for reference in ("latest", "first", run.id, run.id[:-2]):
        shown = invoke("show", reference)
        assert run.id in shown
        assert f"checkpoint: {run.checkpoint_path}" in shown
        assert shown.count("│") > 3 * 8
    details = json.loads(invoke("show", "--json"))
    assert [len(item["client_results"]) for item in details["rounds"]] == [3, 3, 3]
    assert details["config"]["compressor"] == "eden:bits=1"


def test_compressors_are_listed_with_their_error() -> None:
    shown = invoke("compressors")
    for word in ("identity", "eden:bits=1", "0.575", "0.134", "0.036", "0.00968"):
        assert word in shown


def test_the_version_is_printed() -> None:
    assert invoke("--version").startswith("fedcomp 0.")


def test_errors_are_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["fedcomp", "show", "nothing"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("fedcomp: RunNotFound: no run 'nothing'")
    assert error.count("\n") == 1


def test_the_verdict_gives_the_factor_and_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    run, _ = run_in_process(settings(compressor="identity"))
    print_verdict(run)
    last = capsys.readouterr().out.splitlines()[-1]
    sent = run.total_uplink_payload_bytes
    assert f"uplink {sent / 1e6:.2f} MB" in last
    assert "1.0x smaller than float32" in last  # the header of a tiny model is 1.8 % of its payload
    assert f"fedcomp show {run.id}" in last


@pytest.mark.parametrize(("kind", "terminal"), [("xterm", True), ("xterm", False), ("dumb", True)])
def test_progress_shows_each_round_once(monkeypatch: pytest.MonkeyPatch, kind: str, terminal: bool) -> None:
    monkeypatch.setenv("TERM", kind)
    run, _ = run_in_process(settings())
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=150)
    with RunStore(database_url()) as store, RunProgress(store, console) as progress:
        progress.poll("no such run")
        assert "round" not in output.getvalue().replace("background", "")
        progress.poll("77")
        progress.poll("77")
    shown = output.getvalue()
    assert run.id in shown
    assert "data: two synthetic Gaussian clouds" in shown
    if terminal and kind != "dumb":
        assert "3/3" in shown
    else:
        assert [shown.count(f"round {index}: accuracy") for index in (1, 2, 3)] == [1, 1, 1]
        assert "bits/coordinate" in shown
