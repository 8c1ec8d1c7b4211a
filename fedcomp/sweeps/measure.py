"""The process that measures for :mod:`fedcomp.sweeps.estimate`: one task with all its arms."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from fedcomp.compressors.registry import compressor, decode
from fedcomp.errors import FedcompError
from fedcomp.run_config import RunConfig
from fedcomp.settings_check import check_settings
from fedcomp.sweeps.estimate import Machine, TaskCost, answer_line, error_line, settings_for
from fedcomp.tasks.base import Examples, Task
from fedcomp.tasks.registry import load_task
from fedcomp.training.available import available_memory, most_resident_memory
from fedcomp.training.loop import train
from fedcomp.training.settings import training_options
from fedcomp.vectors import VectorSpec

_CLIENTS, _STEPS, _TEST_BATCH = 3, 2, 256
# What the server holds beside what is measured: the sum, the moments, the checkpoint, all of dim.
_SERVER_BYTES = 48


def measure(arms: dict[str, RunConfig], *, clients: int, seed: int, start_seconds: float = 0.0) -> TaskCost:
    """Measure one task: a few clients' data, two steps, a part of the test, an encoding by each arm.

    Raises
    ------
    FedcompError
        When a task or compressor is unknown or wrong, with the arm's name in front.
    """
    config = next(iter(arms.values()))
    device = torch.device("cuda" if torch.cuda.is_available() and config.device != "cpu" else "cpu")
    task = load_task(config.task)
    started = time.perf_counter()
    model = task.build_model(seed=seed)
    build_seconds = time.perf_counter() - started
    layout = VectorSpec.from_state_dict(model.state_dict())
    parts = [task.client_examples(index, clients, seed=seed) for index in range(min(_CLIENTS, clients))]
    started = time.perf_counter()
    # A second time, since the first may have had to make them.
    task.client_examples(0, clients, seed=seed)
    load_seconds = build_seconds + time.perf_counter() - started
    examples = max(parts, key=len)
    before = layout.flatten(model.state_dict())
    batch_seconds = _train(model, task, examples, config, device)
    update = (layout.flatten(model.state_dict()) - before).to(device)
    encode_seconds: dict[str, float] = {}
    for name, arm in arms.items():
        try:
            check_settings(arm)
            encode_seconds[arm.compressor] = _encode(arm, update, layout, seed=seed)
        except FedcompError as error:
            raise type(error)(f", arm {name}: {error}") from error
    return TaskCost(
        data_label=task.data_label,
        dim=layout.dim,
        examples=sum(len(part) for part in parts) / len(parts),
        batch_seconds=batch_seconds,
        load_seconds=load_seconds,
        test_seconds=_test(model, task, task.test_examples(seed=seed), device),
        encode_seconds=encode_seconds,
        memory_bytes=most_resident_memory() + _SERVER_BYTES * layout.dim,
        start_seconds=start_seconds,
    )


def _train(model: nn.Module, task: Task, examples: Examples, config: RunConfig, device: torch.device) -> float:
    """Return the seconds of one step; the first, which warms up, does not count."""
    options = training_options(config, learning_rate=config.learning_rate, batch_size=config.batch_size)
    seconds = 0.0
    for steps in (1, _STEPS):
        count = min(len(examples), steps * config.batch_size)
        part = Examples(examples.inputs[:count], examples.targets[:count])
        started = time.perf_counter()
        result = train(model, task, part, options, device=device, seed=0)
        seconds = (time.perf_counter() - started) / max(1, result.steps)
    return seconds


@torch.no_grad()
def _test(model: nn.Module, task: Task, examples: Examples, device: torch.device) -> float:
    model.to(device).eval()
    part = Examples(examples.inputs[:_TEST_BATCH].to(device), examples.targets[:_TEST_BATCH].to(device))
    if not len(part):
        return 0.0
    started = time.perf_counter()
    float(task.loss(model(part.inputs), part.targets))
    return (time.perf_counter() - started) * len(examples) / len(part)


def _encode(config: RunConfig, update: Tensor, layout: VectorSpec, *, seed: int) -> float:
    """Return the seconds of an encoding and two decodings; a first one compiles what is compiled."""
    codec = compressor(config.compressor)
    seconds = 0.0
    for _ in range(2):
        started = time.perf_counter()
        payload = codec.encode(update, seed=seed, shapes=layout.shapes)
        encoded = time.perf_counter()
        decode(payload, seed=seed, device=update.device)
        decoded = time.perf_counter()
        seconds = encoded - started + 2 * (decoded - encoded)
    return seconds


def _main(words: Iterable[str]) -> None:
    torch.set_num_threads(1)
    (job,) = (json.loads(word) for word in words)
    # Two processes share no other clock.
    start_seconds = max(0.0, time.time() - job["started"])
    try:
        cost = measure(settings_for(job), clients=job["clients"], seed=job["seed"], start_seconds=start_seconds)
    except FedcompError as error:
        text = str(error)
        sys.stdout.write(error_line(text if text.startswith(", arm") else f": {text}") + "\n")
        return
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    machine = Machine(cores=cores, memory_bytes=available_memory(torch.device("cpu")), gpus=gpus)
    sys.stdout.write(answer_line(cost, machine) + "\n")


if __name__ == "__main__":
    _main(sys.argv[1:])
