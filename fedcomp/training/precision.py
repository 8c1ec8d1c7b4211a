"""Mixed precision: the forward pass in 16 bits, parameters and update in float32."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch

from fedcomp.errors import ConfigError
from fedcomp.training.options import TrainingOptions

_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def autocast(options: TrainingOptions, device: torch.device) -> AbstractContextManager[object]:
    """Return the context in which forward pass and loss are computed; torch decides which operations take 16 bits.

    Raises
    ------
    ConfigError
        For ``float16`` without a GPU, where it is slow and bfloat16 has the range of float32 at the same size.
    """
    if options.precision == "float32":
        return nullcontext()
    _refuse_float16_without_gpu(options, device)
    return torch.autocast(device.type, dtype=_DTYPES[options.precision])


def loss_scaler(options: TrainingOptions, device: torch.device) -> torch.amp.GradScaler:
    """Return what scales the loss so that small float16 gradients do not vanish; it does nothing for other precisions.

    A step whose gradient overflows is left out and the scale halved: with float16 a round may have a few steps less.

    Raises
    ------
    ConfigError
        As :func:`autocast`.
    """
    _refuse_float16_without_gpu(options, device)
    return torch.amp.GradScaler(device.type, enabled=options.precision == "float16")


def _refuse_float16_without_gpu(options: TrainingOptions, device: torch.device) -> None:
    if options.precision == "float16" and device.type != "cuda":
        raise ConfigError(
            f"precision is 'float16', which needs a CUDA device; on {device.type} use bfloat16 or float32"
        )
