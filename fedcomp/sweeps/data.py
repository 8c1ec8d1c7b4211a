"""Real data for a sweep: prepared once, then named in the tasks' specs."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from fedcomp.config import Spec, parse_spec
from fedcomp.home import home
from fedcomp.sweeps.spec import Sweep, SweepError, SweepTask

KINDS = ("emnist", "shakespeare")
_COMMAND = "from fedcomp.commands.main import main; main()"


def prepare(sweep: Sweep, folder: Path) -> Sweep:
    """Return the sweep with its tasks on the data in ``folder/emnist`` and ``folder/shakespeare``.

    A data set that was prepared from the same folder is used as it is.

    Raises
    ------
    SweepError
        When a task has no such data, its folder is missing, or what lies there cannot be prepared.
    """
    return replace(sweep, tasks=tuple(_on(task, folder) for task in sweep.tasks))


def _on(task: SweepTask, folder: Path) -> SweepTask:
    kind = task.spec.partition(":")[0]
    if kind not in KINDS:
        raise SweepError(f"--data: task {task.name} is {task.spec!r}; there are data for {', '.join(KINDS)} only")
    source = (folder / kind).resolve()
    if not source.exists():
        raise SweepError(f"--data: {source} is missing; put the data of task {task.name} there")
    name = f"{kind}-{hashlib.blake2b(str(source).encode(), digest_size=4).hexdigest()}"
    if not (home() / "data" / name / "manifest.json").exists():
        command = [sys.executable, "-P", "-c", _COMMAND, "data", "prepare", kind, "--from", str(source), "--name", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SweepError(f"--data: {source} could not be prepared: {done.stderr.strip()[-1000:]}")
    parsed = parse_spec(task.spec)
    return replace(task, spec=str(Spec(parsed.name, {**parsed.options, "data": name})))
