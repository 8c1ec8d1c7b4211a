"""One client tried out before a simulation, to see how much memory it takes."""

from __future__ import annotations

import torch

from fedcomp.compressors.registry import compressor
from fedcomp.run_config import RunConfig
from fedcomp.tasks.base import Examples
from fedcomp.tasks.registry import load_task
from fedcomp.training.available import most_resident_memory
from fedcomp.training.loop import train
from fedcomp.training.settings import training_options
from fedcomp.vectors import VectorSpec

CUDA_CONTEXT = 600_000_000
"""Bytes of GPU memory that a process takes before its first tensor: context, kernels and the libraries' workspaces."""

FLOWER = 200_000_000
"""Bytes that Flower and ray add to a client's process on the host."""


def memory_of_one_client(config: RunConfig, num_clients: int, *, device: torch.device) -> dict[str, int]:
    """Train the first client on one batch, encode what came of it, and return what that took at its peak.

    To be called in a process of its own, since a process does not give back what it once had.

    Returns
    -------
    Bytes as ``host`` (resident memory of a client's process) and ``gpu`` (0 without one).

    Raises
    ------
    ConfigError
        Whatever is wrong with the settings.
    """
    task = load_task(config.task)
    model = task.build_model(seed=config.seed)
    layout = VectorSpec.from_state_dict(model.state_dict())
    examples = task.client_examples(0, num_clients, seed=config.seed)
    batch = Examples(examples.inputs[: config.batch_size], examples.targets[: config.batch_size])
    options = training_options(config, learning_rate=config.learning_rate, batch_size=config.batch_size)
    start = layout.flatten(model.state_dict()).to(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    train(model, task, batch, options, device=device, seed=config.seed)
    update = layout.flatten(model.state_dict()) - start
    if bool(torch.isfinite(update).all()):
        compressor(config.compressor).encode(update, seed=config.seed, shapes=layout.shapes)
    return {"host": most_resident_memory() + FLOWER, "gpu": _on_gpu(device)}


def _on_gpu(device: torch.device) -> int:
    return torch.cuda.max_memory_reserved(device) + CUDA_CONTEXT if device.type == "cuda" else 0
