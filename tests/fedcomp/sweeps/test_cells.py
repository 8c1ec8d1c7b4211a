from __future__ import annotations

import json
from pathlib import Path

import pytest

from dashboard.store import RunStore
from fedcomp.home import database_url
from fedcomp.sweeps.cells import CellRecord, look_up, parse_run_name
from tests.support.sweeps import add_run, cells


def test_a_run_name_says_which_cell() -> None:
    for cell in cells(seeds=[4]):
        key = parse_run_name(cell.name)
        assert key is not None
        assert (key.sweep, key.task, key.arm, key.seed, key.clients) == ("tiny", "TinyTask", cell.arm.name, 4, 3)


@pytest.mark.parametrize(
    "name", ["", "demo", "sweep/a/b/c", "sweep/a/b/c/seed-x/clients-1", "x/a/b/c/seed-1/clients-1"]
)
def test_other_names_are_no_cells(name: str) -> None:
    assert parse_run_name(name) is None


def checkpoint(store: RunStore, run_id: str, folder: Path, round_index: int) -> None:
    folder.mkdir()
    (folder / "state.json").write_text(json.dumps({"round_index": round_index}))
    store.set_checkpoint(run_id, str(folder))


def test_a_cell_is_new_finished_or_resumable(tmp_path: Path) -> None:
    cell = cells()[0]
    with RunStore(database_url()) as store:
        assert look_up(store, cell) == CellRecord("new")
        cancelled = add_run(store, cell, accuracies=[0.1, 0.2], status="cancelled")
        assert look_up(store, cell) == CellRecord("new", cancelled)  # there is nothing to resume from
        checkpoint(store, cancelled, tmp_path / "round-00001", 1)
        assert look_up(store, cell) == CellRecord("resumable", cancelled, 1)
        done = add_run(store, cell, accuracies=[0.1, 0.2, 0.3])
        assert look_up(store, cell) == CellRecord("finished", done, 3)


def test_a_run_that_died_is_resumed(tmp_path: Path) -> None:
    cell = cells()[0]
    with RunStore(database_url()) as store:
        died = add_run(store, cell, accuracies=[0.1, 0.2], status="running")
        checkpoint(store, died, tmp_path / "round-00002", 2)
        assert look_up(store, cell) == CellRecord("resumable", died, 2)


def test_other_settings_clients_or_fewer_rounds_are_another_run(tmp_path: Path) -> None:
    cell = cells()[0]
    with RunStore(database_url()) as store:
        run_id = add_run(store, cell, accuracies=[0.1, 0.2, 0.3])
        checkpoint(store, run_id, tmp_path / "round-00003", 3)
        assert look_up(store, cell).status == "finished"
        for changes in (
            {"clients": 4},
            {"settings": {"num-server-rounds": 3, "learning-rate": 0.2}},
            {"settings": {"num-server-rounds": 2, "learning-rate": 0.1}},
            {"arms": {"plain": "float16"}},
        ):
            assert look_up(store, cells(**changes)[0]).status == "new", changes


def test_a_run_that_stopped_by_itself_is_finished_and_one_that_was_stopped_is_not() -> None:
    cell = cells()[0]
    with RunStore(database_url()) as store:
        run_id = add_run(store, cell, accuracies=[0.1, 0.9])
        store.set_stop_reason(run_id, "accuracy 0.9 reached")
        assert look_up(store, cell).status == "finished"
        store.set_stop_reason(run_id, "stopped by request after round 2")
        assert look_up(store, cell).status == "new"
