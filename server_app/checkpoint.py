"""Checkpoints: the model as safetensors and the run's position as JSON, written so that a crash leaves the last one."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

from fedcomp.errors import CheckpointError
from fedcomp.vectors import VectorSpec

_MODEL, _STATE = "model.safetensors", "state.json"


@dataclass(frozen=True)
class CheckpointState:
    """Where a run stood when the checkpoint was written.

    Attributes
    ----------
    run_id, round_index
        Which run, after which round.
    seed
        The run's seed, as text.
    layout
        ``VectorSpec.fingerprint`` of the model.
    config
        The run's settings.
    """

    run_id: str
    round_index: int
    seed: str
    layout: str
    config: Mapping[str, str | int | float | bool]


def save_checkpoint(folder: Path, state: Mapping[str, Tensor], position: CheckpointState) -> Path:
    """Write one checkpoint as ``folder/round-00012`` and remove older ones; returns its path.

    Both files are complete on disk before the folder gets its name.

    Raises
    ------
    CheckpointError
        When it cannot be written, on a full disk for instance; earlier checkpoints are untouched.
    """
    target = folder / f"round-{position.round_index:05d}"
    draft = folder / f".draft-{position.round_index:05d}-{os.getpid()}"
    layout = VectorSpec.from_state_dict(state)
    tied = {entry.name for entry in layout.tensors if entry.tied_to is not None}
    try:
        draft.mkdir(parents=True)
        # safetensors refuses shared memory; a tied tensor is restored from the layout.
        save_file({name: value.contiguous() for name, value in state.items() if name not in tied}, draft / _MODEL)
        (draft / _STATE).write_text(json.dumps(asdict(position), indent=2) + "\n", encoding="utf-8")
        for path in (draft / _MODEL, draft / _STATE):
            with path.open("rb") as file:
                os.fsync(file.fileno())
        if target.exists():
            shutil.rmtree(target)
        draft.rename(target)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise CheckpointError(
            f"checkpoint {target} could not be written: {error}; the last good one is kept"
        ) from error
    for older in list_checkpoints(folder)[:-1]:
        shutil.rmtree(older)
    return target


def load_checkpoint(path: Path, layout: VectorSpec) -> tuple[dict[str, Tensor], CheckpointState]:
    """Read a checkpoint folder back as (state dict, position).

    Raises
    ------
    CheckpointError
        When a file is missing or damaged, or the model is of another layout.
    """
    try:
        position = CheckpointState(**json.loads((path / _STATE).read_text(encoding="utf-8")))
        stored = load_file(path / _MODEL)
    except Exception as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error}; use an earlier one") from error
    if position.layout != layout.fingerprint:
        raise CheckpointError(
            f"checkpoint {path} is of a model with layout {position.layout}, not {layout.fingerprint}"
        )
    return {entry.name: stored[entry.tied_to or entry.name] for entry in layout.tensors}, position


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the finished checkpoints in a folder, oldest round first."""
    return sorted(folder.glob("round-*"))
