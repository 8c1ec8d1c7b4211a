"""``fedcomp export``: a run's model as files that other programs read."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from safetensors import SafetensorError

from dashboard.schemas import RunDetail
from dashboard.store import RunStore
from fedcomp.errors import CheckpointError, FedcompError
from fedcomp.home import database_url

_LONGEST_STEM = 60  # characters take up to four bytes, file names up to 255


class Format(StrEnum):
    """What is written."""

    SAFETENSORS = "safetensors"
    ONNX = "onnx"
    ALL = "all"


class ExportExists(FedcompError):
    """A file to be written is there already; the message names it."""


class ExportNotWritten(FedcompError):
    """The files could not be written; none of them is there in part."""


def export(
    run: Annotated[str, typer.Argument(help="A run's id or the start of it, its name, or 'latest'.")],
    out: Annotated[Path, typer.Option(help="Folder for the files; made when missing.")] = Path(),
    format_: Annotated[Format, typer.Option("--format", help="What to write.")] = Format.ALL,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
) -> None:
    """Write the model of a run's last checkpoint as safetensors and ONNX, named after the run."""
    with RunStore(database_url()) as store:
        found = store.find_run(run)
    checkpoint = _checkpoint(found)
    kinds = [Format.SAFETENSORS, Format.ONNX] if format_ is Format.ALL else [format_]
    if Format.ONNX in kinds:
        from fedcomp.commands.onnx_file import require_onnx, write_onnx

        require_onnx()
    stem = file_stem(found)
    if not force:
        _refuse_existing(out / f"{stem}.{kind}" for kind in kinds)
    try:
        out.mkdir(parents=True, exist_ok=True)
        # In the same folder, so that a finished file only changes its name.
        with TemporaryDirectory(prefix=".export-", dir=out) as draft:
            if Format.SAFETENSORS in kinds:
                _write_safetensors(found, checkpoint, Path(draft, f"{stem}.safetensors"))
            if Format.ONNX in kinds:
                write_onnx(found, checkpoint / "model.safetensors", Path(draft, f"{stem}.onnx"))
            written = _publish(Path(draft), out, force=force)
    except (OSError, SafetensorError) as error:
        raise ExportNotWritten(f"run {found.id} could not be written to {out}: {error}") from error
    for path in written:
        typer.echo(f"{path}: {path.stat().st_size:,} bytes, the model of {checkpoint.name} of run {found.id}")


def file_stem(run: RunDetail) -> str:
    """Return the run's name as a file can have it, or its id when nothing is left of the name.

    Letters, digits, ``_``, ``.`` and ``-`` stay, everything else becomes ``-``; at most 60 characters.
    """
    return re.sub(r"[^\w.-]+", "-", run.name)[:_LONGEST_STEM].strip(".-") or run.id


def _checkpoint(run: RunDetail) -> Path:
    if run.checkpoint_path is None:
        raise CheckpointError(
            f"run {run.id} ({run.status}, {run.rounds_done} of {run.num_rounds} rounds) has no checkpoint to export; "
            "a run writes one each checkpoint-every rounds, none when that is 0"
        )
    path = Path(run.checkpoint_path)
    if not (path / "model.safetensors").is_file():
        why = "the run goes on and may just have replaced it: try again" if run.status == "running" else "it was moved"
        raise CheckpointError(f"checkpoint {path} of run {run.id} is gone or has no model.safetensors: {why}")
    return path


def _refuse_existing(paths: Iterable[Path]) -> None:
    there = [str(path) for path in paths if path.exists()]
    if there:
        raise ExportExists(f"{', '.join(there)}: there already; --force replaces, --out names another folder")


def _write_safetensors(run: RunDetail, checkpoint: Path, target: Path) -> None:
    from safetensors.torch import load_file, save_file

    try:
        tensors = load_file(checkpoint / "model.safetensors")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"checkpoint {checkpoint} of run {run.id} cannot be read: {error}") from error
    origin = {"format": "pt", "fedcomp-run": run.id, "fedcomp-checkpoint": checkpoint.name, "fedcomp-task": run.task}
    target.touch()
    mode = target.stat().st_mode
    save_file(tensors, target, metadata=origin)
    target.chmod(mode)  # safetensors makes its files private


def _publish(draft: Path, out: Path, *, force: bool) -> list[Path]:
    # Weights beyond ONNX's 2 GB lie in a file beside it, .onnx.data, which must be there first.
    files = sorted(draft.iterdir(), key=lambda path: (path.suffix == ".onnx", path.name))
    targets = [out / path.name for path in files]
    if not force:
        _refuse_existing(targets)
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
    for path, target in zip(files, targets, strict=True):
        path.replace(target)
    return targets
