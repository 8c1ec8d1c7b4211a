from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from dashboard.store import RunStore
from fedcomp.home import database_url
from fedcomp.sweeps.report import write_report
from fedcomp.sweeps.results import Point, RunResult, collect
from fedcomp.sweeps.saved import FILE, load_runs, save_runs
from fedcomp.sweeps.spec import SweepError
from tests.support.sweeps import add_run, cells, tiny_sweep


def filled(tmp_path: Path, *, seeds: list[int]) -> list[RunResult]:
    """Runs with these seeds, as a report on another machine would have saved them."""
    with RunStore(f"sqlite:///{tmp_path / 'other.db'}") as store:
        for cell in cells(seeds=seeds):
            add_run(store, cell, accuracies=[0.1, 0.1 * cell.seed])
        result = collect(store, "tiny")
        write_report(result, tmp_path / "other")
    return load_runs(tmp_path / "other" / FILE)


def test_runs_come_back_as_they_were(tmp_path: Path) -> None:
    runs = filled(tmp_path, seeds=[1, 2])
    odd = replace(runs[0], bits=math.inf, points=(Point(1, math.nan, 0.5, None),))
    save_runs([*runs, odd], tmp_path / "again.jsonl")
    *again, odder = load_runs(tmp_path / "again.jsonl")
    assert again == runs
    assert len(again) == 4
    assert odder.bits == math.inf
    assert math.isnan(odder.accuracy)


def test_a_report_shows_saved_runs_where_the_database_has_none(tmp_path: Path) -> None:
    saved = filled(tmp_path, seeds=[2, 3])
    with RunStore(database_url()) as store:
        for cell in cells(seeds=[1, 2]):
            add_run(store, cell, accuracies=[0.1, 0.9])
        result = collect(store, "tiny", saved=saved)
        assert [[run.key.seed for run in arm.runs] for arm in result.arms] == [[1, 2, 3], [1, 2, 3]]
        assert [run.accuracy for run in result.arms[0].runs] == pytest.approx([0.9, 0.9, 0.3])
        only = collect(store, "tiny", tiny_sweep(seeds=[3]), saved=saved)
        assert [[run.key.seed for run in arm.runs] for arm in only.arms] == [[3], [3]]
        with pytest.raises(SweepError, match="'other' has no finished run"):
            collect(store, "other", saved=saved)


def test_a_saved_run_stands_in_for_an_unfinished_one(tmp_path: Path) -> None:
    saved = filled(tmp_path, seeds=[1])
    with RunStore(database_url()) as store:
        add_run(store, cells()[0], accuracies=[0.1], status="failed")
        assert collect(store, "tiny", saved=saved).unfinished == {}


@pytest.mark.parametrize("line", ['{"key": 3}', "nonsense", "[]"])
def test_a_file_that_is_none_names_its_line(tmp_path: Path, line: str) -> None:
    good = filled(tmp_path, seeds=[1])
    save_runs(good[:1], tmp_path / "bad.jsonl")
    with (tmp_path / "bad.jsonl").open("a") as file:
        file.write(line + "\n")
    with pytest.raises(SweepError, match=r"bad.jsonl, line 2: .*give a runs.jsonl that `fedcomp report` wrote"):
        load_runs(tmp_path / "bad.jsonl")
    with pytest.raises(SweepError, match=r"absent.jsonl.*give a runs.jsonl"):
        load_runs(tmp_path / "absent.jsonl")
