"""A run's trained model as an ONNX file."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, cast

from dashboard.schemas import RunDetail
from fedcomp.errors import CheckpointError, ConfigError, FedcompError

if TYPE_CHECKING:
    from torch import Tensor, nn
    from torch.onnx import ONNXProgram

PACKAGES = ("onnx", "onnxscript")
_EXAMPLES = 2  # torch takes an axis of length 1 for a constant in some models


class OnnxMissing(FedcompError):
    """A package that writes ONNX is not installed; the message says what to install."""


class OnnxFailed(FedcompError):
    """The task's model cannot be expressed in ONNX; the message says why."""


def require_onnx() -> None:
    """Raise ``OnnxMissing`` unless the packages of the extra ``onnx`` are installed."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise OnnxMissing(
            f"writing ONNX needs the packages {' and '.join(PACKAGES)}, and {', '.join(missing)} is not installed: "
            "pip install 'fedcomp[onnx]', or choose --format safetensors"
        )


def write_onnx(run: RunDetail, model_file: Path, target: Path) -> None:
    """Write the run's model with the weights of `model_file` to `target`.

    The file has one input ``input`` and one output ``output``, whose first axis ``batch`` may have any length, and
    computes what the model does in evaluation mode. Weights beyond 2 GB go to a file beside it, ``target`` + ``.data``.

    Raises
    ------
    ConfigError
        The run's task cannot be loaded here.
    CheckpointError
        `model_file` cannot be read or does not fit the task's model.
    OnnxFailed
        torch cannot express the model in ONNX.
    """
    model, example = _trained_model(run, model_file)
    _to_onnx(run, model, example).save(target)


def _trained_model(run: RunDetail, model_file: Path) -> tuple[nn.Module, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load_model

    from fedcomp.tasks.registry import load_task

    try:
        task = load_task(run.task)
    except ConfigError as error:
        raise ConfigError(
            f"run {run.id}: {error} (your own must be installed or on PYTHONPATH; --format safetensors needs none)"
        ) from error
    model = task.build_model(seed=run.seed)
    try:
        load_model(model, model_file)
    except (OSError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(f"{model_file} cannot be read as the model of task {run.task!r}: {error}") from error
    return model.eval(), task.test_examples(seed=run.seed).inputs[:_EXAMPLES]


def _to_onnx(run: RunDetail, model: nn.Module, example: Tensor) -> ONNXProgram:
    import torch

    try:
        with _quiet():
            program = torch.onnx.export(
                model,
                (example,),
                input_names=["input"],
                output_names=["output"],
                dynamic_shapes=({0: torch.export.Dim("batch")},),
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.OnnxExporterError as error:
        cause = error.__cause__ or error
        raise OnnxFailed(
            f"the model of task {run.task!r} cannot be written as ONNX: {type(cause).__name__}: {cause}; "
            "--format safetensors writes any model"
        ) from error
    return cast("ONNXProgram", program)  # None is for the exporter before this one


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep back torch's talk about itself: its own deprecations, packages that it would also like to have."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
