"""Local training on a CUDA device."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from fedcomp.bench.peak import peak_bytes
from fedcomp.bench.recipe import TokenTask
from fedcomp.tasks.base import Examples
from fedcomp.tasks.emnist_model import EmnistCnn
from fedcomp.training.available import available_memory
from fedcomp.training.loop import TrainResult, train
from fedcomp.training.memory import estimate
from fedcomp.training.options import TrainingOptions
from tests.support.tiny_task import TinyTask
from tests.support.training_models import EXAMPLES, all_equal, residual

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine")

CUDA = torch.device("cuda")


def run(model: nn.Module, **options: object) -> TrainResult:
    wanted = TrainingOptions(**{"learning_rate": 0.1, "batch_size": 12, **options})  # type: ignore[arg-type]
    return train(model, TinyTask(), EXAMPLES, wanted, device=CUDA, seed=3)


def test_it_learns_what_the_cpu_learns() -> None:
    here, there = residual(), residual()
    train(
        here,
        TinyTask(),
        EXAMPLES,
        TrainingOptions(learning_rate=0.1, batch_size=12),
        device=torch.device("cpu"),
        seed=3,
    )
    run(there)
    for name, value in here.state_dict().items():
        torch.testing.assert_close(there.state_dict()[name].cpu(), value, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "saving",
    [{"activation_checkpointing": "on"}, {"offload_activations": True}],
    ids=["checkpointing", "offload"],
)
def test_saving_memory_changes_no_bit(saving: dict[str, object]) -> None:
    plain, saved = residual(dropout=0.4, norm=True), residual(dropout=0.4, norm=True)
    run(plain, deterministic=True, activation_checkpointing="off")
    run(saved, deterministic=True, **{"activation_checkpointing": "off", **saving})
    assert all_equal(plain, saved)


def test_dropout_and_order_follow_from_the_seed_and_global_randomness_stays() -> None:
    torch.cuda.manual_seed(0)
    expected = torch.rand(3, device=CUDA)
    torch.cuda.manual_seed(0)
    ends = [residual(dropout=0.4) for _ in range(2)]
    for model in ends:
        run(model, deterministic=True)
    assert torch.equal(torch.rand(3, device=CUDA), expected)
    assert all_equal(*ends)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_16_bits_come_close_to_32(precision: str) -> None:
    exact, rounded = residual(), residual()
    wanted = run(exact, local_epochs=20)
    found = run(rounded, local_epochs=20, precision=precision)
    assert found.loss == pytest.approx(wanted.loss, rel=0.3)
    assert all(parameter.dtype == torch.float32 for parameter in rounded.parameters())


def test_a_batch_that_does_not_fit_is_halved() -> None:
    """Real shortage: torch may take only what a quarter of the batch needs, and some."""
    images = Examples(torch.rand(1024, 1, 28, 28), torch.arange(1024) % 62)
    options = TrainingOptions(batch_size=1024, activation_checkpointing="off")
    model = EmnistCnn(seed=1).to(CUDA)
    whole = copy.deepcopy(model)
    needed = peak_bytes(lambda: train(whole, TinyTask(), images, options, device=CUDA, seed=1), CUDA)
    assert needed is not None
    total = torch.cuda.mem_get_info(CUDA)[1]
    torch.cuda.empty_cache()
    try:
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_allocated(CUDA) + 0.5 * needed) / total, CUDA)
        result = train(model, TinyTask(), images, options, device=CUDA, seed=1)
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0, CUDA)
    assert result.micro_batch_size < 1024
    assert result.steps == 1


@pytest.mark.parametrize("checkpointing", ["off", "on"])
def test_the_estimate_is_what_training_takes(checkpointing: str) -> None:
    task = TokenTask()
    model, examples = task.build_model(seed=1).to(CUDA), task.client_examples(0, 1, seed=1)
    options = TrainingOptions(batch_size=8, activation_checkpointing=checkpointing)
    found = estimate(model, task, examples, options)
    train(copy.deepcopy(model), task, examples, options, device=CUDA, seed=1)
    peak = peak_bytes(lambda: train(model, task, examples, options, device=CUDA, seed=1), CUDA)
    assert peak is not None
    assert (found.total - found.parameters) / peak == pytest.approx(1, abs=0.5)


def test_the_device_tells_what_is_free() -> None:
    found = available_memory(CUDA)
    assert found is not None
    assert 0 < found <= torch.cuda.mem_get_info(CUDA)[1]
