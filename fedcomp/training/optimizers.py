"""The clients' optimizers; all are torch's, but for the 8-bit one."""

from __future__ import annotations

import importlib
from collections.abc import Iterable

from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from fedcomp.errors import ConfigError
from fedcomp.training.options import TrainingOptions

# bitsandbytes keeps one float32 scale for 256 values of a state, and small tensors as they are.
_BYTES_OF_8_BIT_STATE = 2 * (1 + 4 / 256)


def build_optimizer(parameters: Iterable[nn.Parameter], options: TrainingOptions) -> Optimizer:
    """Return a fresh optimizer: its state begins with the round.

    Raises
    ------
    ConfigError
        When ``adamw8bit`` is wanted and bitsandbytes is not installed.
    """
    rate, decay = options.learning_rate, options.weight_decay
    if options.optimizer == "adam":
        return Adam(parameters, lr=rate, weight_decay=decay)
    if options.optimizer == "adamw":
        return AdamW(parameters, lr=rate, weight_decay=decay)
    if options.optimizer == "adamw8bit":
        return _adamw8bit(parameters, rate, decay)
    return SGD(parameters, lr=rate, momentum=options.momentum, weight_decay=decay)


def state_bytes(parameters: Iterable[nn.Parameter], options: TrainingOptions) -> int:
    """Return the bytes of the optimizer's state after the first step."""
    sizes = [(parameter.numel(), parameter.nbytes) for parameter in parameters]
    if options.optimizer == "adamw8bit":
        return round(sum(count for count, _ in sizes) * _BYTES_OF_8_BIT_STATE)
    copies = 2 if options.optimizer in ("adam", "adamw") else int(options.momentum > 0)
    return copies * sum(size for _, size in sizes)


def _adamw8bit(parameters: Iterable[nn.Parameter], rate: float, decay: float) -> Optimizer:
    try:
        library = importlib.import_module("bitsandbytes")
    except ImportError as error:
        raise ConfigError(
            "optimizer is 'adamw8bit', which needs the package bitsandbytes; "
            "install it with pip install bitsandbytes, or take adamw"
        ) from error
    optimizer: Optimizer = library.optim.AdamW8bit(parameters, lr=rate, weight_decay=decay)
    return optimizer
