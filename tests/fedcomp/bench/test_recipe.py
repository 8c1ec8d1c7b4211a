"""The shape of what is measured; how fast it is depends on the machine and is no test."""

from __future__ import annotations

import importlib.util
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fedcomp.bench import recipe
from fedcomp.bench.recipe import MODELS, PLAIN, ImageTask, StepTime, TokenTask, measure, recipes
from fedcomp.bench.recipe_transformer import LENGTH, VOCABULARY, BenchTransformer
from fedcomp.tasks.base import Examples
from fedcomp.training.activations import checkpointed
from fedcomp.training.blocks import blocks
from fedcomp.training.memory import estimate
from fedcomp.training.options import TrainingOptions
from tests.support.tiny_task import TinyTask
from tests.support.training_models import EXAMPLES, residual

CPU = torch.device("cpu")


class SmallTask(TinyTask):
    def build_model(self, *, seed: int) -> nn.Module:
        return residual(dropout=0.1)

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        return EXAMPLES


@pytest.fixture(scope="module")
def transformer() -> BenchTransformer:
    return BenchTransformer(seed=1)


def test_the_transformer_has_30_million_parameters(transformer: BenchTransformer) -> None:
    counted = sum(parameter.numel() for parameter in transformer.parameters())
    assert counted == 29_970_432
    assert "29,970,432" in (BenchTransformer.__doc__ or "")
    assert counted == pytest.approx(30e6, rel=0.01)
    assert len(blocks(transformer)) == 8


def test_the_transformer_predicts_from_what_came_before_alone(transformer: BenchTransformer) -> None:
    transformer.eval()
    examples = TokenTask().client_examples(0, 1, seed=1)
    changed = examples.inputs[:1].clone()
    changed[0, 40] = (changed[0, 40] + 1) % VOCABULARY
    with torch.no_grad():
        before, after = transformer(examples.inputs[:1]), transformer(changed)
    assert before.shape == (1, LENGTH, VOCABULARY)
    assert torch.equal(before[0, :40], after[0, :40])
    assert not torch.equal(before[0, 40:], after[0, 40:])


@pytest.mark.parametrize("task", [ImageTask(), TokenTask()])
def test_examples_follow_from_the_seed(task: ImageTask) -> None:
    one, same, other = (task.client_examples(0, 1, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.inputs, same.inputs)
    assert not torch.equal(one.inputs, other.inputs)
    assert torch.equal(task.test_examples(seed=1).inputs, one.inputs)
    if isinstance(task, TokenTask):
        assert torch.equal(one.inputs[:, 1:], one.targets[:, :-1])


def test_the_tasks_models_take_their_examples() -> None:
    """The CNN's images; the transformer takes its tokens in another test."""
    task = ImageTask()
    examples = task.client_examples(0, 1, seed=1)
    assert task.loss(task.build_model(seed=1)(examples.inputs[:2]), examples.targets[:2]).ndim == 0


def test_only_what_is_there_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    here = recipes(16, CPU)
    assert next(iter(here)) == PLAIN
    assert not {"float16", "adamw8bit"} & here.keys()
    assert {"float16"} == recipes(16, torch.device("cuda")).keys() - here.keys()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: SimpleNamespace())
    assert {"adamw8bit"} == recipes(16, CPU).keys() - here.keys()
    assert here["micro-batches"].micro_batch_size == 4
    assert all(options.batch_size == 16 for options in here.values())
    assert len(set(here.values())) == len(here)


def test_figures_follow_from_what_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "small", SmallTask)
    options = recipes(24, CPU)
    order: list[TrainingOptions] = []

    def timed(model: nn.Module, task: TinyTask, examples: Examples, wanted: TrainingOptions, *rest: object) -> StepTime:
        order.append(wanted)
        # A plain step works 2 s, then 4, then 6; the others twice as long, but far longer the first time.
        number = (len(order) - 1) // len(options) + 1
        work = 2.0 * number * (1 if wanted == options[PLAIN] else 100 if number == 1 else 2)
        return StepTime(seconds=10 * work, work=work)

    def peak(model: nn.Module, task: TinyTask, examples: Examples, wanted: TrainingOptions, *rest: object) -> int:
        return 3000 if wanted.optimizer == "adam" else 2000

    monkeypatch.setattr(recipe, "_time", timed)
    monkeypatch.setattr(recipe, "_peak", peak)
    found = list(measure("small", repeats=3, seed=1, device=CPU))
    assert [item.option for item in found] == list(options)
    assert order == list(options.values()) * 3
    assert [item.time_ratio for item in found] == [1.0] + [2.0] * (len(options) - 1)
    assert [item.seconds for item in found] == [40.0] + [120.0] * (len(options) - 1)
    assert {item.option: item.memory_ratio for item in found} == {
        name: 1.5 if name == "adam" else 1.0 for name in options
    }
    for item in found:
        expected = estimate(residual(dropout=0.1), SmallTask(), EXAMPLES, options[item.option])
        assert item.estimated_bytes == expected.total - expected.parameters
        assert (item.batch_size, item.repeats, item.parameters) == (24, 3, 3 * 72 + 18)
    assert found[0].peak_bytes == 2000
    assert {item.micro_batch_size for item in found} == {24, 6}


def test_a_system_that_does_not_tell_memory_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "small", SmallTask)
    monkeypatch.setattr(recipe, "peak_bytes", lambda *_: None)
    found = list(measure("small", repeats=1, seed=1, device=CPU))
    assert {(item.peak_bytes, item.memory_ratio) for item in found} == {(None, None)}
    assert all(item.seconds > 0 and item.time_ratio > 0 for item in found)


def test_recomputing_saves_memory_in_the_transformer(transformer: BenchTransformer) -> None:
    kept: list[int] = []
    for enabled in (False, True):
        sizes: dict[int, int] = {}

        def keep(tensor: torch.Tensor, sizes: dict[int, int] = sizes) -> torch.Tensor:
            sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        with checkpointed(transformer.train(), enabled), torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
            out = transformer(TokenTask().client_examples(0, 1, seed=1).inputs[:1])
        kept.append(sum(sizes.values()) - sum(parameter.nbytes for parameter in transformer.parameters()))
        del out
    assert kept[1] < 0.5 * kept[0]


@pytest.mark.parametrize(("device", "work"), [("cpu", 3.0), ("cuda", 5.0)])
def test_work_is_processor_time_on_a_cpu_alone(device: str, work: float, monkeypatch: pytest.MonkeyPatch) -> None:
    clocks = SimpleNamespace(perf_counter=iter([1.0, 6.0]).__next__, process_time=iter([2.0, 5.0]).__next__)
    waited: list[str] = []
    monkeypatch.setattr(recipe, "time", clocks)
    monkeypatch.setattr(recipe, "train", lambda *_, **__: None)
    monkeypatch.setattr(nn.Module, "to", lambda self, _: self)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda place: waited.append(str(place)))
    found = recipe._time(residual(), SmallTask(), EXAMPLES, TrainingOptions(), torch.device(device), 1)
    assert found == StepTime(5.0, work)
    assert waited == (["cuda"] if device == "cuda" else [])
