"""A run that `fedcomp simulate --resume` is to go on with: its settings and its number of clients."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from dashboard.schemas import RunDetail
from dashboard.store import RunStore
from fedcomp.config import Value
from fedcomp.errors import ConfigError
from fedcomp.home import database_url
from fedcomp.run_config import RunConfig


def find_resumed(reference: str) -> tuple[RunDetail, int | None]:
    """Return a run, and into how many parts its data is divided as far as a checkpoint tells.

    Raises
    ------
    RunNotFound, AmbiguousRun
        When the reference means none, or more than one.
    ConfigError
        When the run has no checkpoint that can be read.
    """
    with RunStore(database_url()) as store:
        run = store.find_run(reference)
    if run.checkpoint_path is None:
        raise ConfigError(f"run {run.id} has no checkpoint to resume from; start it anew")
    folder = Path(run.checkpoint_path).parent
    for path in sorted(folder.glob("round-*/state.json"), key=lambda path: (len(path.parent.name), path), reverse=True):
        try:
            return run, json.loads(path.read_text(encoding="utf-8"))["num_partitions"]
        except (OSError, ValueError, KeyError):
            continue  # the one before it will do; the server says so when it reads them
    raise ConfigError(f"run {run.id} has no checkpoint in {folder} that can be read; start it anew")


def settings_of(run: RunDetail) -> Mapping[str, Value]:
    """Return the settings to resume a run with: its own."""
    known = RunConfig().to_mapping()
    settings = {key: value for key, value in run.config.items() if key in known and isinstance(value, Value)}
    return settings | {"resume": run.id}
