"""What each option of local training costs and saves: peak memory and time against plain training in the same run."""

from __future__ import annotations

import copy
import importlib.util
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedcomp.bench.peak import peak_bytes
from fedcomp.bench.recipe_transformer import LENGTH, VOCABULARY, BenchTransformer
from fedcomp.bench.speed import device_name
from fedcomp.tasks.base import Examples, Task
from fedcomp.tasks.emnist_model import EmnistCnn
from fedcomp.training.loop import train
from fedcomp.training.memory import estimate
from fedcomp.training.options import TrainingOptions

PLAIN = "plain"


class ImageTask(Task):
    """The EMNIST CNN on images of noise: time and memory do not depend on what is in them."""

    name = "emnist"
    data_label = "random pixels"

    def build_model(self, *, seed: int) -> nn.Module:
        """Return the EMNIST CNN."""
        return EmnistCnn(seed=seed)

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        """Return 128 images, one batch."""
        generator = torch.Generator().manual_seed(seed)
        return Examples(torch.rand(128, 1, 28, 28, generator=generator), torch.arange(128) % 62)

    def test_examples(self, *, seed: int) -> Examples:
        """Return the same."""
        return self.client_examples(0, 1, seed=seed)

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy."""
        return functional.cross_entropy(outputs, targets)


class TokenTask(ImageTask):
    """A transformer of 30 million parameters on random tokens."""

    name = "transformer"
    data_label = "random tokens"

    def build_model(self, *, seed: int) -> nn.Module:
        """Return the transformer."""
        return BenchTransformer(seed=seed)

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        """Return eight sequences of 64 tokens, one batch, and the token after each."""
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(VOCABULARY, (8, LENGTH + 1), generator=generator)
        return Examples(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross entropy over all tokens."""
        return functional.cross_entropy(outputs.flatten(end_dim=1), targets.flatten())


MODELS: Mapping[str, type[Task]] = {task.name: task for task in (ImageTask, TokenTask)}


@dataclass(frozen=True)
class RecipeResult:
    """One option on one model.

    Attributes
    ----------
    model, parameters, option
        What was trained, its number of parameters, and with what.
    device, threads, torch_version
        Where: the device's name, torch's CPU threads, torch's release.
    batch_size, micro_batch_size, repeats
        Examples a step, examples at once, and how many steps were timed.
    seconds
        Median time of one step, with all that begins a round.
    time_ratio
        Median over the repeats of the step's time in times of the plain one; on a CPU that of processor time, so that
        other programs count less.
    peak_bytes, memory_ratio
        The most memory a step takes beside the model, and in times of the plain step; None where unknown.
    estimated_bytes
        The same by :func:`fedcomp.training.memory.estimate`.
    """

    model: str
    parameters: int
    option: str
    device: str
    threads: int
    torch_version: str
    batch_size: int
    micro_batch_size: int
    repeats: int
    seconds: float
    time_ratio: float
    peak_bytes: int | None
    memory_ratio: float | None
    estimated_bytes: int


def recipes(batch_size: int, device: torch.device) -> dict[str, TrainingOptions]:
    """Return the options that are compared, by name; what this machine does not have is left out."""
    plain = TrainingOptions(batch_size=batch_size, activation_checkpointing="off")
    quarter = max(1, batch_size // 4)
    found = {
        PLAIN: plain,
        "adam": replace(plain, optimizer="adam"),
        "adamw8bit": replace(plain, optimizer="adamw8bit"),
        "proximal term": replace(plain, proximal_mu=0.01),
        "gradient clipping": replace(plain, clip_gradients=1.0),
        "micro-batches": replace(plain, micro_batch_size=quarter),
        "bfloat16": replace(plain, precision="bfloat16"),
        "float16": replace(plain, precision="float16"),
        "checkpointing": replace(plain, activation_checkpointing="on"),
        "offload": replace(plain, offload_activations=True),
        "micro-batches + checkpointing": replace(plain, micro_batch_size=quarter, activation_checkpointing="on"),
    }
    absent = {"float16"} if device.type != "cuda" else set()
    if importlib.util.find_spec("bitsandbytes") is None:
        absent.add("adamw8bit")
    return {name: options for name, options in found.items() if name not in absent}


def measure(name: str, *, repeats: int, seed: int, device: torch.device) -> Iterator[RecipeResult]:
    """Yield each option's result on one model, plain first.

    After a step to warm up, the peak of one step of each option is measured; then, in each repeat, one step of every
    option is timed in turn. A step is a round of one batch.
    """
    task = MODELS[name]()
    model = task.build_model(seed=seed)
    examples = task.client_examples(0, 1, seed=seed)
    options = recipes(len(examples), device)
    peaks = {option: _peak(model, task, examples, wanted, device, seed) for option, wanted in options.items()}
    times: dict[str, list[StepTime]] = {option: [] for option in options}
    for _ in range(repeats):
        for option, wanted in options.items():
            times[option].append(_time(model, task, examples, wanted, device, seed))
    base = peaks[PLAIN]
    for option, wanted in options.items():
        peak, expected = peaks[option], estimate(model, task, examples, wanted)
        yield RecipeResult(
            model=name,
            parameters=sum(parameter.numel() for parameter in model.parameters()),
            option=option,
            device=device_name(device),
            threads=torch.get_num_threads(),
            torch_version=torch.__version__,
            batch_size=wanted.batch_size,
            micro_batch_size=wanted.examples_at_once,
            repeats=repeats,
            seconds=statistics.median(step.seconds for step in times[option]),
            time_ratio=statistics.median(
                step.work / plain.work for step, plain in zip(times[option], times[PLAIN], strict=True)
            ),
            peak_bytes=peak,
            memory_ratio=peak / base if peak is not None and base else None,
            estimated_bytes=expected.total - expected.parameters,
        )


def _peak(
    model: nn.Module, task: Task, examples: Examples, options: TrainingOptions, device: torch.device, seed: int
) -> int | None:
    trained = copy.deepcopy(model).to(device)
    train(trained, task, examples, options, device=device, seed=seed)
    return peak_bytes(lambda: train(trained, task, examples, options, device=device, seed=seed), device)


class StepTime(NamedTuple):
    """Seconds by the clock, and of work: processor time on a CPU, where other programs take turns."""

    seconds: float
    work: float


def _time(
    model: nn.Module, task: Task, examples: Examples, options: TrainingOptions, device: torch.device, seed: int
) -> StepTime:
    trained = copy.deepcopy(model).to(device)
    started, worked = time.perf_counter(), time.process_time()
    train(trained, task, examples, options, device=device, seed=seed)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    seconds, work = time.perf_counter() - started, time.process_time() - worked
    return StepTime(seconds, seconds if device.type == "cuda" else work)
