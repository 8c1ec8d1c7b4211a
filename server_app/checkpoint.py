"""Checkpoints: the model and the server's tensors as safetensors, the run's position as JSON.

A checkpoint is complete on disk before it gets its name, so a crash at any moment leaves the last good one.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedcomp.errors import CheckpointError
from fedcomp.vectors import VectorSpec

_MODEL, _SERVER, _STATE = "model.safetensors", "server.safetensors", "state.json"

log = logging.getLogger("fedcomp.server")


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
    num_partitions
        Into how many parts the data is divided; None when no client has said so yet.
    config
        The run's settings.
    server
        What the server remembers besides tensors.
    """

    run_id: str
    round_index: int
    seed: str
    layout: str
    config: Mapping[str, str | int | float | bool]
    num_partitions: int | None = None
    server: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoint:
    """What a checkpoint folder holds.

    Attributes
    ----------
    model
        The model's state dict.
    tensors
        The server's other tensors, such as the optimizer's moments.
    position
        Everything else.
    """

    model: Mapping[str, Tensor]
    tensors: Mapping[str, Tensor]
    position: CheckpointState


def save_checkpoint(folder: Path, checkpoint: Checkpoint, *, keep: int = 1) -> Path:
    """Write ``folder/round-00012``, remove all but the newest ``keep`` checkpoints, and return the path.

    Raises
    ------
    CheckpointError
        When it cannot be written, on a full disk for instance; earlier checkpoints are untouched.
    """
    position = checkpoint.position
    target = folder / f"round-{position.round_index:05d}"
    draft = folder / f".draft-{position.round_index:05d}-{os.getpid()}"
    layout = VectorSpec.from_state_dict(checkpoint.model)
    tied = {entry.name for entry in layout.tensors if entry.tied_to is not None}
    try:
        for abandoned in folder.glob(".draft-*"):
            shutil.rmtree(abandoned)
        draft.mkdir(parents=True)
        # safetensors refuses shared memory; a tied tensor is restored from the layout.
        model = {name: value.contiguous() for name, value in checkpoint.model.items() if name not in tied}
        save_file(model, draft / _MODEL)
        save_file({name: value.contiguous() for name, value in checkpoint.tensors.items()}, draft / _SERVER)
        (draft / _STATE).write_text(json.dumps(asdict(position), indent=2) + "\n", encoding="utf-8")
        for name in (_MODEL, _SERVER, _STATE):
            with (draft / name).open("rb") as file:
                os.fsync(file.fileno())
        if target.exists():
            shutil.rmtree(target)
        draft.rename(target)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        raise CheckpointError(
            f"checkpoint {target} could not be written: {error}; the last good one is kept: make room, then resume"
        ) from error
    for older in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(older)
    return target


def load_checkpoint(path: Path, layout: VectorSpec) -> Checkpoint:
    """Read a checkpoint folder back.

    Raises
    ------
    CheckpointError
        When a file is missing or damaged, or the model is of another layout.
    """
    try:
        position = CheckpointState(**json.loads((path / _STATE).read_text(encoding="utf-8")))
        stored, tensors = load_file(path / _MODEL), load_file(path / _SERVER)
    except Exception as error:
        raise CheckpointError(f"checkpoint {path} cannot be read: {error}; use an earlier one") from error
    if position.layout != layout.fingerprint:
        raise CheckpointError(
            f"checkpoint {path} is of a model with layout {position.layout}, not {layout.fingerprint}"
        )
    model = {entry.name: stored[entry.tied_to or entry.name] for entry in layout.tensors}
    return Checkpoint(model, tensors, position)


def load_newest(folder: Path, layout: VectorSpec) -> Checkpoint:
    """Read the newest checkpoint of a folder that can be read; says so when an older one is used.

    Raises
    ------
    CheckpointError
        When there is none.
    """
    for path in reversed(list_checkpoints(folder)):
        try:
            return load_checkpoint(path, layout)
        except CheckpointError as error:
            log.warning("%s", error)
    raise CheckpointError(f"{folder} has no checkpoint that can be read; start the run anew")


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the finished checkpoints in a folder, oldest round first."""
    # By length first: round 100000 comes after round 99999.
    return sorted(folder.glob("round-*"), key=lambda path: (len(path.name), path.name))
