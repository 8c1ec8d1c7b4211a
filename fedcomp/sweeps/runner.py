"""Runs the cells of a sweep, some at a time."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dashboard.store import RunStore
from fedcomp.sweeps.cells import Cell, CellRecord, look_up
from fedcomp.sweeps.spec import SweepError
from fedcomp.sweeps.worker import Engine, Worker

POLL_SECONDS = 0.5


@dataclass
class Progress:
    """How far a sweep is.

    Attributes
    ----------
    cells, rounds
        How many there are in all.
    finished, failed
        Cells that are finished, those of earlier calls included, and why each failed cell did.
    rounds_done, rounds_before
        Rounds that are done, and how many of these were when the sweep began.
    running
        Key of each cell that runs, and how many of its rounds are done.
    """

    cells: int
    rounds: int
    finished: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    rounds_done: int = 0
    rounds_before: int = 0
    running: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def seconds_left(self) -> float | None:
        """Return the time left at the pace so far; None before the first round."""
        new = self.rounds_done - self.rounds_before
        if not new:
            return None
        return (time.monotonic() - self.started) / new * (self.rounds - self.rounds_done)


class Runner:
    """Runs what is not finished; call ``run`` once.

    Parameters
    ----------
    cells
        All cells, in the order in which they are to begin.
    engine
        How each is run.
    log_dir
        Where each process's output goes.
    on_poll
        Called twice a second.
    on_end
        Called with each cell that ended and why it failed, or None.

    Attributes
    ----------
    records
        All cells, with what there was of them before.
    progress
        How far the sweep is.
    """

    def __init__(
        self,
        store: RunStore,
        cells: Sequence[Cell],
        *,
        engine: Engine,
        log_dir: Path,
        on_poll: Callable[[Progress], None],
        on_end: Callable[[Cell, str | None], None],
    ) -> None:
        self._store, self._engine, self._log_dir = store, engine, log_dir
        self._on_poll, self._on_end = on_poll, on_end
        self.records = found = [(cell, look_up(store, cell)) for cell in cells]
        self._waiting = [(cell, record) for cell, record in found if record.status != "finished"]
        self._workers: list[Worker] = []
        self._settled = sum(cell.rounds for cell, record in found if record.status == "finished")
        before = self._settled + sum(record.rounds_done for _, record in self._waiting)
        self.progress = Progress(
            cells=len(found),
            rounds=sum(cell.rounds for cell in cells),
            finished=len(found) - len(self._waiting),
            rounds_done=before,
            rounds_before=before,
        )

    @property
    def waiting(self) -> Sequence[tuple[Cell, CellRecord]]:
        """The cells that have not begun, with what there is of them."""
        return self._waiting

    def run(self, *, parallel: int) -> Progress:
        """Run all cells that are not finished, so many at once; one that fails does not hinder the others.

        On KeyboardInterrupt the processes are ended, their runs marked as cancelled, and it is raised again.
        """
        self.progress.started = time.monotonic()
        try:
            while self._waiting or self._workers:
                while self._waiting and len(self._workers) < parallel:
                    cell, record = self._waiting.pop(0)
                    path = self._log_dir / f"{cell.name.replace('/', '.')}.log"
                    self._workers.append(Worker(cell, record, engine=self._engine, log_path=path))
                self._note()
                time.sleep(POLL_SECONDS)
                for worker in [worker for worker in self._workers if worker.poll() is not None]:
                    self._settle(worker)
        except BaseException:
            for worker in self._workers:
                worker.ask_to_end()
            for worker in self._workers:
                worker.end()
                worker.close_record(self._store, cancelled=True)
            raise
        self._note()
        return self.progress

    def _settle(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.end()
        failure = worker.close_record(self._store, cancelled=False)
        self._settled += worker.cell.rounds
        if failure is None:
            self.progress.finished += 1
        else:
            self.progress.failed[worker.cell.key] = f"{failure}; its log is {worker.log_path}"
        self._on_end(worker.cell, failure)

    def _note(self) -> None:
        running = {}
        for worker in self._workers:
            run_id = worker.run_id(self._store)
            running[worker.cell.key] = self._store.summary(run_id).rounds_done if run_id else 0
        self.progress.running = running
        waiting = sum(record.rounds_done for _, record in self._waiting)
        self.progress.rounds_done = self._settled + waiting + sum(running.values())
        self._on_poll(self.progress)


@contextmanager
def hold_sweep(folder: Path, name: str) -> Iterator[None]:
    """Hold a sweep for as long as the ``with`` block lasts; a killed process lets go of it.

    Raises
    ------
    SweepError
        When another process runs it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SweepError(f"sweep {name} is being run by another process; wait for it, or stop that one") from error
        yield
    finally:
        os.close(descriptor)
