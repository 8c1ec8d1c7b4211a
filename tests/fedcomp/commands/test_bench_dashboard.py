from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboard import benchmark
from dashboard.store import RunStore
from fedcomp.commands.main import app


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, ["bench", "dashboard", "--tries", "1", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_runs_are_made_up_once_and_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark, "_CALLS", ((("Compare", "/"), ("Run", "/runs/{run}")),))
    database = f"sqlite:///{tmp_path / 'runs.db'}"
    shown = invoke("--database", database, "--runs", "3", "--rounds", "2", "--clients", "1")
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if line[:1] == "│"]
    assert [line[0] for line in lines] == ["Compare", "Run"]
    assert all(float(cell.replace(",", "")) > 0 for line in lines for cell in line[1:])
    for word in ("3 runs; ", "the median of 1 calls after the first", "repeat with: fedcomp"):
        assert word in shown
    found = json.loads(invoke("--database", database, "--runs", "7", "--json"))
    assert [item["call"] for item in found] == ["Compare", "Run"]
    assert found[1]["address"].startswith("/runs/2026")
    with RunStore(database) as store:
        assert [(run.rounds_done, run.num_rounds) for run in store.list_runs()] == [(2, 2)] * 3
