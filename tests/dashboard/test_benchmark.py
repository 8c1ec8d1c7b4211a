from __future__ import annotations

import sys

import pytest

from dashboard.benchmark import fill, main, measure
from dashboard.store import RunStore


def test_the_data_set_is_what_was_asked_for_and_every_question_has_an_answer(store: RunStore) -> None:
    fill(store, runs=3, rounds=4, clients=2, seed=1)
    runs = [store.find_run(run.id) for run in store.list_runs()]
    assert [(run.rounds_done, len(run.rounds[0].client_results)) for run in runs] == [(4, 2)] * 3
    timings = list(measure(store, tries=2))
    assert len(timings) > 10
    assert all(0 < timing.fastest <= timing.slowest for timing in timings)


def test_the_command_prints_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["benchmark", "--runs", "2", "--rounds", "2", "--clients", "1"])
    main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("made the data set in")
    assert lines[1].startswith("Compare: page of 50 runs")
