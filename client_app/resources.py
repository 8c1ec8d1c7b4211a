"""Which device a client trains on."""

from __future__ import annotations

import torch

from fedcomp.errors import ConfigError


def choose_device(wanted: str, *, partition_id: int = 0) -> torch.device:
    """Map ``auto``, ``cpu``, ``cuda``, ``cuda:1``… to a device that is there; auto prefers a GPU.

    Where several GPUs are visible, ``auto`` and ``cuda`` spread the clients over them by partition; ``cuda:1`` is that
    one for all.

    Raises
    ------
    ConfigError
        When the device is unknown or not there; names what is.
    """
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    there = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    try:
        device = torch.device(wanted)
    except RuntimeError as error:
        raise ConfigError(f"device is {wanted!r}; allowed: auto, {', '.join(there)}") from error
    if wanted == "cuda" and torch.cuda.device_count() > 1:
        return torch.device("cuda", partition_id % torch.cuda.device_count())
    if device.type == "cpu" or (device.type == "cuda" and (device.index or 0) < torch.cuda.device_count()):
        return device
    raise ConfigError(f"device is {wanted!r}, which this machine does not have; allowed: auto, {', '.join(there)}")
