"""One cell's process: how it is started, stopped, and what is recorded when it died."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Literal

from dashboard.schemas import RunDetail
from dashboard.store import RunNotFound, RunStore
from fedcomp.config import Value
from fedcomp.sweeps.cells import Cell, CellRecord
from fedcomp.sweeps.spec import SweepError

Engine = Literal["in-process", "flower"]
ENGINES: tuple[Engine, ...] = ("in-process", "flower")

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
_COMMAND = "from fedcomp.commands.main import main; main()"
_GRACE_SECONDS = 30.0


class Worker:
    """A cell that runs in a process of its own, with one torch thread, in a session of its own.

    In-process cells end by themselves when this process is gone, however it went.

    Parameters
    ----------
    cell, record
        What to run, and what there is of it.
    engine
        ``in-process``, or ``flower`` for a simulation of Flower's own.
    log_path
        Where its output goes.
    """

    def __init__(self, cell: Cell, record: CellRecord, *, engine: Engine, log_path: Path) -> None:
        self.cell, self.engine, self.log_path = cell, engine, log_path
        self._flower_run_id = secrets.randbits(62) + 1
        self._before = record.run_id
        self._run_id: str | None = None
        settings = cell.settings
        if record.status == "resumable" and record.run_id is not None:
            settings["resume"] = record.run_id
        self._resumed = settings.get("resume", "")
        log_path.parent.mkdir(parents=True, exist_ok=True)
        with log_path.open("ab") as output:
            self._process = subprocess.Popen(
                self._in_process(settings) if engine == "in-process" else self._simulation(settings),
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **dict.fromkeys(_THREADS, "1")},
                start_new_session=True,
            )

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.poll()

    def run(self, store: RunStore) -> RunDetail | None:
        """Return the cell's run, or None before it has begun."""
        if self.engine == "in-process":
            return store.find_by_flower_run(str(self._flower_run_id))
        try:
            found = store.find_run(self.cell.name)
        except RunNotFound:
            return None
        return found if self._resumed or found.id != self._before else None

    def run_id(self, store: RunStore) -> str | None:
        """Return the id of the cell's run, or None before it has begun; asked for once, as this is polled."""
        if self._run_id is None:
            run = self.run(store)
            self._run_id = None if run is None else run.id
        return self._run_id

    def ask_to_end(self) -> None:
        """Ask it to end, so that its run is recorded as cancelled."""
        if self.poll() is None:
            self._process.terminate()

    def end(self) -> None:
        """Wait for its end; after half a minute make it."""
        if self.poll() is None:
            try:
                self._process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()

    def close_record(self, store: RunStore, *, cancelled: bool) -> str | None:
        """Close the record of a run whose process could not, and return why it failed; None when it completed."""
        run = self.run(store)
        if run is not None and run.status in ("queued", "running"):
            error = "interrupted" if cancelled else f"the process ended with status {self.poll()}"
            store.finish_run(run.id, "cancelled" if cancelled else "failed", error)
            return error
        if run is None or run.status != "completed":
            said = None if run is None else run.error
            return said or f"status {self.poll()}, its last line: {_last_line(self.log_path)}"
        return None

    def _in_process(self, settings: dict[str, Value]) -> list[str]:
        job = {"settings": settings, "clients": self.cell.task.clients, "flower_run_id": self._flower_run_id}
        # -P: the folder that the user is in is no place to import from.
        return [sys.executable, "-P", "-m", "fedcomp.flower.local_run", json.dumps(job)]

    def _simulation(self, settings: dict[str, Value]) -> list[str]:
        resume = str(settings.pop("resume", ""))
        pairs = [word for key, value in settings.items() for word in ("-c", f"{key}={json.dumps(value)}")]
        command = [sys.executable, "-P", "-c", _COMMAND, "simulate", "--clients", str(self.cell.task.clients), *pairs]
        return command + (["--resume", resume] if resume else [])


def check_engine(engine: str, settings: dict[str, Value]) -> Engine:
    """Return the engine of that name when it can do what the settings ask.

    Raises
    ------
    SweepError
        When it is unknown, or the settings need time to pass between messages.
    """
    for known in ENGINES:
        if engine == known:
            if known == "in-process" and settings.get("target-upload-seconds"):
                raise SweepError(
                    f"target-upload-seconds is {settings['target-upload-seconds']}, but within one process nothing is "
                    "uploaded; use --engine flower, or client-bits for budgets"
                )
            return known
    raise SweepError(f"--engine is {engine!r}; allowed: {', '.join(ENGINES)}")


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "nothing"
