"""Real processes, one a cell: what is finished is skipped, what died is resumed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dashboard.store import RunStore
from fedcomp.home import database_url, home
from fedcomp.sweeps.cells import Cell, look_up
from fedcomp.sweeps.runner import Progress, Runner, hold_sweep
from fedcomp.sweeps.spec import SweepError
from fedcomp.sweeps.worker import Worker, check_engine
from tests.support.commands import ROOT
from tests.support.sweeps import cells


@pytest.fixture(autouse=True)
def tasks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def nothing(*_: object) -> None:
    return


def runner(store: RunStore, wanted: Sequence[Cell], on_poll: Callable[[Progress], None] = nothing) -> Runner:
    return Runner(store, wanted, engine="in-process", log_dir=home() / "logs", on_poll=on_poll, on_end=nothing)


def test_cells_run_once_and_a_failed_one_hinders_nobody() -> None:
    bad = {"compressor": "eden:bits=2", "min-clients": 5}
    wanted = cells(arms={"bad": bad, "plain": "identity", "eden-2": "eden:bits=2"})
    seen: list[int] = []
    with RunStore(database_url()) as store:
        progress = runner(store, wanted, lambda now: seen.append(len(now.running))).run(parallel=2)
        assert max(seen) == 2
        assert progress.finished == 2
        assert list(progress.failed) == ["TinyTask/bad/seed-1"]
        assert "TooFewClients" in progress.failed["TinyTask/bad/seed-1"]
        # Before its first round it wrote a checkpoint.
        assert [look_up(store, cell).status for cell in wanted] == ["resumable", "finished", "finished"]
        again = runner(store, wanted)
        assert [cell.arm.name for cell, _ in again.waiting] == ["bad"]
        assert again.progress.finished == 2
        runs = store.list_runs()
    assert {run.rounds_done for run in runs if run.status == "completed"} == {3}


def started(store: RunStore, cell: Cell) -> Worker:
    worker = Worker(cell, look_up(store, cell), engine="in-process", log_path=home() / "logs" / "cell.log")
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and worker.poll() is None:
        run = worker.run(store)
        if run is not None and run.rounds_done >= 2:
            return worker
        time.sleep(0.1)
    worker.ask_to_end()
    worker.end()
    pytest.fail((home() / "logs" / "cell.log").read_text())


def test_a_killed_cell_is_recorded_and_resumed() -> None:
    endless = cells(settings={"num-server-rounds": 100_000, "learning-rate": 0.1}, arms={"plain": "identity"})[0]
    with RunStore(database_url()) as store:
        worker = started(store, endless)
        os.kill(worker._process.pid, signal.SIGKILL)
        worker.end()
        failure = worker.close_record(store, cancelled=False)
        assert failure == f"the process ended with status {-signal.SIGKILL}"
        record = look_up(store, endless)
        assert record.status == "resumable"
        assert record.run_id is not None
        assert store.summary(record.run_id).status == "failed"
        # The same run with an end: how many rounds there are may change.
        rounds = store.summary(record.run_id).rounds_done + 2
        short = cells(settings={"num-server-rounds": rounds, "learning-rate": 0.1}, arms={"plain": "identity"})
        progress = runner(store, short).run(parallel=1)
        assert (progress.finished, progress.failed) == (1, {})
        assert progress.rounds_before > 0
        (run,) = store.list_runs()
    assert (run.id, run.status, run.rounds_done) == (record.run_id, "completed", rounds)


def test_an_interrupted_sweep_cancels_its_runs() -> None:
    endless = cells(settings={"num-server-rounds": 100_000, "learning-rate": 0.1}, arms={"plain": "identity"})

    def interrupt(progress: Progress) -> None:
        if sum(progress.running.values()) > 1:
            raise KeyboardInterrupt

    with RunStore(database_url()) as store:
        with pytest.raises(KeyboardInterrupt):
            runner(store, endless, interrupt).run(parallel=1)
        (run,) = store.list_runs()
        assert run.status == "cancelled"
        assert look_up(store, endless[0]).status == "resumable"


def test_a_sweep_is_run_by_one_process(tmp_path: Path) -> None:
    with (
        hold_sweep(tmp_path, "s"),
        hold_sweep(tmp_path, "other"),
        pytest.raises(SweepError, match="sweep s is being run by another process"),
        hold_sweep(tmp_path, "s"),
    ):
        pass
    with hold_sweep(tmp_path, "s"):
        pass


def test_the_time_left_is_that_of_the_rounds_left() -> None:
    progress = Progress(cells=2, rounds=100, rounds_before=20, rounds_done=20)
    assert progress.seconds_left() is None
    progress.rounds_done, progress.started = 40, time.monotonic() - 10
    assert progress.seconds_left() == pytest.approx(30, abs=1)


def test_an_engine_is_named_and_can_do_what_is_asked() -> None:
    assert check_engine("flower", {"target-upload-seconds": 1.0}) == "flower"
    with pytest.raises(SweepError, match="--engine is 'ray'; allowed: in-process, flower"):
        check_engine("ray", {})
    with pytest.raises(SweepError, match=r"target-upload-seconds is 1\.0, .* use --engine flower"):
        check_engine("in-process", {"target-upload-seconds": 1.0})
