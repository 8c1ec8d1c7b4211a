"""A cell is one run of a sweep; its run's name says which, so that it is found again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dashboard.schemas import RunSummary
from dashboard.store import RunNotFound, RunStore
from fedcomp.config import Value
from fedcomp.errors import ConfigError
from fedcomp.resume import check_same_run
from fedcomp.run_config import RunConfig
from fedcomp.sweeps.spec import Arm, Sweep, SweepTask

PREFIX = "sweep"
# Such a run has not come to an end of its own.
_BY_REQUEST = "stopped by request"
_TASKS, _ARM, _SEED, _CLIENTS = range(2, 6)


@dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Attributes
    ----------
    sweep
        The sweep's name.
    task, arm, seed
        Its place in the grid.
    """

    sweep: str
    task: SweepTask
    arm: Arm
    seed: int

    @property
    def name(self) -> str:
        """The run's name, ``sweep/<sweep>/<task>/<arm>/seed-<seed>/clients-<clients>``."""
        return f"{PREFIX}/{self.sweep}/{self.key}/clients-{self.task.clients}"

    @property
    def key(self) -> str:
        """What it is called within its sweep, ``<task>/<arm>/seed-<seed>``."""
        return f"{self.task.name}/{self.arm.name}/seed-{self.seed}"

    @property
    def settings(self) -> dict[str, Value]:
        """All that the run sets."""
        # The error of every mean is what a sweep is for.
        own: dict[str, Value] = {
            "log-level": "warning",
            "measure-nmse": True,
            **self.task.settings,
            **self.arm.settings,
        }
        return own | {"name": self.name, "task": self.task.spec, "seed": self.seed}

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return RunConfig.from_mapping(self.settings).num_server_rounds


@dataclass(frozen=True)
class CellRecord:
    """What the store holds of a cell.

    Attributes
    ----------
    status
        ``finished``; ``resumable``, from a checkpoint; or ``new``, when there is nothing to go on with.
    run_id
        Its newest run with the same settings, if any.
    rounds_done
        How many rounds need not be run again.
    """

    status: Literal["finished", "resumable", "new"]
    run_id: str | None = None
    rounds_done: int = 0


@dataclass(frozen=True)
class RunKey:
    """What a run's name says of its place in a sweep."""

    sweep: str
    task: str
    arm: str
    seed: int
    clients: int


def cells_of(sweep: Sweep) -> Iterator[Cell]:
    """Yield all cells, seed by seed, so that a sweep that is cut short has every arm."""
    for seed in sweep.seeds:
        for task in sweep.tasks:
            for arm in sweep.arms:
                yield Cell(sweep.name, task, arm, seed)


def parse_run_name(name: str) -> RunKey | None:
    """Return what a run's name says, or None when it is no sweep's."""
    words = name.split("/")
    if len(words) != _CLIENTS + 1 or words[0] != PREFIX:
        return None
    seed, clients = words[_SEED].removeprefix("seed-"), words[_CLIENTS].removeprefix("clients-")
    if not (seed.isdecimal() and clients.isdecimal()):
        return None
    return RunKey(words[1], words[_TASKS], words[_ARM], int(seed), int(clients))


def look_up(store: RunStore, cell: Cell) -> CellRecord:
    """Return what is known of a cell; runs of the same name with other settings do not count."""
    try:
        run = store.find_run(cell.name)
    except RunNotFound:
        return CellRecord("new")
    if run.rounds_done > cell.rounds or not _same(run.id, run.config, cell):
        return CellRecord("new")
    stopped = run.stop_reason is not None and not run.stop_reason.startswith(_BY_REQUEST)
    if run.status == "completed" and (run.rounds_done == cell.rounds or stopped):
        return CellRecord("finished", run.id, run.rounds_done)
    done = _checkpointed_round(run)
    return CellRecord("resumable", run.id, done) if done is not None else CellRecord("new", run.id)


def _same(run_id: str, before: Mapping[str, object], cell: Cell) -> bool:
    try:
        check_same_run(run_id, before, RunConfig.from_mapping(cell.settings))
    except ConfigError:
        return False
    return True


def _checkpointed_round(run: RunSummary) -> int | None:
    """Return the round that the run's last checkpoint is of; None when there is none to resume from."""
    if run.checkpoint_path is None:
        return None
    try:
        return int(json.loads((Path(run.checkpoint_path) / "state.json").read_text(encoding="utf-8"))["round_index"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
