"""What a sweep will take, from some batches and encodings measured on this machine.

Measured in a process of its own: loading torch here would hold its memory for the whole sweep.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fedcomp.config import Value
from fedcomp.errors import ConfigError
from fedcomp.run_config import RunConfig
from fedcomp.sweeps.cells import Cell
from fedcomp.sweeps.spec import Sweep

_MEASURED = "measured: "


@dataclass(frozen=True)
class TaskCost:
    """What one task costs on this machine, with one thread.

    Attributes
    ----------
    data_label
        Which data it is.
    dim
        Coordinates of an update.
    examples
        Mean number of examples of the first clients.
    batch_seconds
        A training step with a whole batch.
    load_seconds
        Making a client's model and examples.
    test_seconds
        The test of the model.
    encode_seconds
        By compressor: encoding one update and decoding it twice, at the client and at the server.
    memory_bytes
        Of a process that runs a cell.
    start_seconds
        What a process takes before it does anything.
    """

    data_label: str
    dim: int
    examples: float
    batch_seconds: float
    load_seconds: float
    test_seconds: float
    encode_seconds: Mapping[str, float]
    memory_bytes: int
    start_seconds: float

    def round_seconds(self, config: RunConfig, *, clients: int) -> float:
        """Return the time of one round of a run."""
        cohort = min(config.clients_per_round + config.over_selection, clients) if config.clients_per_round else clients
        steps = max(1.0, self.examples / config.batch_size) * config.local_epochs
        each = self.load_seconds + steps * self.batch_seconds + self.encode_seconds[config.compressor]
        return cohort * each + self.test_seconds


@dataclass(frozen=True)
class Machine:
    """What there is to use: CPU cores, bytes of memory (None where the system does not tell), and GPUs."""

    cores: int
    memory_bytes: int | None
    gpus: int


@dataclass(frozen=True)
class Estimate:
    """The costs of each task by its name, and the machine."""

    tasks: Mapping[str, TaskCost]
    machine: Machine

    def seconds(self, cells: Sequence[tuple[Cell, int]], *, parallel: int) -> float:
        """Return how long these cells take together; each comes with the rounds that need not be run."""
        total = longest = 0.0
        for cell, done in cells:
            config = RunConfig.from_mapping(cell.settings)
            cost = self.tasks[cell.task.name]
            rounds = config.num_server_rounds - done
            one = cost.start_seconds + rounds * cost.round_seconds(config, clients=cell.task.clients)
            total, longest = total + one, max(longest, one)
        # More processes than cores only share them.
        return max(total / max(1, min(parallel, self.machine.cores)), longest)

    def parallel(self) -> int:
        """Return how many cells may run at once: as many as there are cores and four fifths of the memory for."""
        needed = max(cost.memory_bytes for cost in self.tasks.values())
        if self.machine.memory_bytes is None:
            return 1
        return max(1, min(self.machine.cores, int(0.8 * self.machine.memory_bytes) // needed))


def estimate(sweep: Sweep) -> Estimate:
    """Build what each task and arm names, and measure it; some seconds a task and arm.

    Raises
    ------
    ConfigError
        Naming the task or arm that is wrong.
    """
    tasks = {}
    machine = None
    for task in sweep.tasks:
        arms = {arm.name: {**task.settings, **arm.settings, "task": task.spec} for arm in sweep.arms}
        answer = _measure({"arms": arms, "clients": task.clients, "seed": sweep.seeds[0]})
        if "error" in answer:
            raise ConfigError(f"task {task.name}{answer['error']}")
        machine = Machine(**answer["machine"])
        tasks[task.name] = TaskCost(**answer["cost"])
    if machine is None:
        raise ConfigError(f"sweep {sweep.name} has no task")
    return Estimate(tasks, machine)


def _measure(job: Mapping[str, Any]) -> dict[str, Any]:
    job = {**job, "started": time.time()}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "fedcomp.sweeps.measure", json.dumps(job)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
    )
    for line in done.stdout.splitlines():
        if line.startswith(_MEASURED):
            return dict(json.loads(line.removeprefix(_MEASURED)))
    raise ConfigError(f" could not be measured:\n{done.stderr[-2000:]}")


def answer_line(cost: TaskCost, machine: Machine) -> str:
    """Return the line that the measuring process prints."""
    return _MEASURED + json.dumps({"cost": asdict(cost), "machine": asdict(machine)})


def error_line(error: str) -> str:
    """Return the line that the measuring process prints when something is wrong."""
    return _MEASURED + json.dumps({"error": error})


def settings_for(job: Mapping[str, Any]) -> dict[str, RunConfig]:
    """Return the settings of each arm of a job."""
    arms: Mapping[str, Mapping[str, Value]] = job["arms"]
    return {name: RunConfig.from_mapping(settings) for name, settings in arms.items()}
