from __future__ import annotations

import pytest
import torch

from client_app.training import train_locally
from fedcomp.run_config import RunConfig
from fedcomp.tasks.base import Examples
from tests.support.tiny_task import TinyTask

CPU = torch.device("cpu")


def train(seed: int = 3, **changes: float) -> tuple[dict[str, torch.Tensor], float, int]:
    task = TinyTask()
    model = task.build_model(seed=1)
    config = RunConfig(learning_rate=0.1, **changes)  # type: ignore[arg-type]
    result = train_locally(model, task, task.client_examples(0, 1, seed=1), config, device=CPU, seed=seed)
    return model.state_dict(), result.loss, result.steps


def test_one_full_batch_step_is_sgd_by_hand() -> None:
    task = TinyTask()
    model = task.build_model(seed=1)
    examples = task.client_examples(0, 1, seed=1)
    loss = task.loss(model(examples.inputs), examples.targets)
    loss.backward()  # type: ignore[no-untyped-call]
    expected = {name: p.detach() - 0.1 * p.grad for name, p in model.named_parameters() if p.grad is not None}
    found, mean_loss, steps = train(batch_size=40)
    assert steps == 1
    assert mean_loss == pytest.approx(loss.item(), rel=1e-5)
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value)


def test_steps_are_epochs_times_batches() -> None:
    assert train(batch_size=16, local_epochs=3)[2] == 9


def test_the_seed_fixes_the_order_and_leaves_global_randomness_alone() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first, second, other = train(seed=3)[0], train(seed=3)[0], train(seed=4)[0]
    assert torch.equal(torch.rand(3), expected)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not all(torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_clients_with_hardly_any_examples_train(count: int) -> None:
    task = TinyTask()
    examples = Examples(torch.zeros(count, 8), torch.zeros(count, dtype=torch.int64))
    result = train_locally(task.build_model(seed=1), task, examples, RunConfig(), device=CPU, seed=1)
    assert result.steps == (1 if count else 0)
