from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from fedcomp.data.dataset import write_dataset
from fedcomp.data.errors import DataError
from fedcomp.data.names import data_folder
from fedcomp.data.shakespeare_roles import dataset_of_roles
from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Examples
from fedcomp.tasks.registry import load_task
from fedcomp.tasks.shakespeare import ShakespeareTask
from fedcomp.training.loop import train
from fedcomp.training.options import TrainingOptions

ROLES = {
    "one": ["To be, or not to be: that is the question."],
    "two": ["Speak.", "Speak, I charge thee, speak!"],
    "three": [f"Words {number}, words, words." * 5 for number in range(10)],
}


@pytest.fixture
def plays() -> ShakespeareTask:
    write_dataset(data_folder("plays"), dataset_of_roles(ROLES, source="text", what="three roles"))
    return ShakespeareTask(data="plays")


def rows(examples: Examples) -> set[bytes]:
    return {row.numpy().tobytes() for row in torch.cat([examples.inputs, examples.targets], dim=1)}


def test_the_default_is_labelled_as_what_it_is() -> None:
    assert "this is not Shakespeare" in ShakespeareTask().data_label
    assert "\n" not in ShakespeareTask().data_label


def test_the_default_has_the_promised_sizes() -> None:
    task = ShakespeareTask()
    assert len(task.test_examples(seed=1)) == 500
    sizes = [len(task.client_examples(client, 10, seed=1)) for client in range(10)]
    assert 60 < min(sizes) <= max(sizes) == 200


def test_examples_have_the_promised_form() -> None:
    task = ShakespeareTask(examples_per_client=7, test_examples=5)
    for examples, n in ((task.client_examples(3, 10, seed=1), 7), (task.test_examples(seed=1), 5)):
        assert examples.inputs.shape == examples.targets.shape == (n, 80)
        assert examples.inputs.dtype == examples.targets.dtype == torch.int64
        assert 0 <= examples.inputs.min() <= examples.inputs.max() < 90
        assert torch.equal(examples.inputs[:, 1:], examples.targets[:, :-1])


@pytest.mark.parametrize("partition", ["natural", "iid", "size"])
def test_clients_share_nothing_and_have_everything(plays: ShakespeareTask, partition: str) -> None:
    task = ShakespeareTask(data="plays", partition=partition)
    owned = [rows(task.client_examples(client, 3, seed=1)) for client in range(3)]
    whole = rows(ShakespeareTask(data="plays").client_examples(0, 1, seed=1))
    assert set().union(*owned) == whole
    assert sum(len(part) for part in owned) == len(whole)
    assert not whole & rows(task.test_examples(seed=1))


def test_a_natural_client_is_one_role(plays: ShakespeareTask) -> None:
    assert "three roles: 3 owners" in plays.data_label
    sizes = sorted(len(plays.client_examples(client, 3, seed=1)) for client in range(3))
    assert sizes == [1, 1, 2 * 8]
    with pytest.raises(ConfigError, match="4 clients but 3 owners"):
        plays.client_examples(0, 4, seed=1)


def test_seed_and_client_decide_what_is_drawn() -> None:
    def drawn(client: int = 0, seed: int = 1) -> torch.Tensor:
        return ShakespeareTask(partition="iid", examples_per_client=20).client_examples(client, 5, seed=seed).inputs

    assert torch.equal(drawn(), drawn())
    assert not torch.equal(drawn(), drawn(seed=2))
    assert not torch.equal(drawn(), drawn(client=1))
    tests = [ShakespeareTask(test_examples=20).test_examples(seed=seed).inputs for seed in (1, 1, 2)]
    assert torch.equal(tests[0], tests[1])
    assert not torch.equal(tests[0], tests[2])


def test_a_sample_is_of_the_clients_own(plays: ShakespeareTask) -> None:
    some = ShakespeareTask(data="plays", examples_per_client=5)
    for client in range(3):
        own = plays.client_examples(client, 3, seed=1)
        assert len(some.client_examples(client, 3, seed=1)) == min(5, len(own))
        assert rows(some.client_examples(client, 3, seed=1)) <= rows(own)


def test_zero_takes_all() -> None:
    task = ShakespeareTask(examples_per_client=0, test_examples=0)
    assert len(task.test_examples(seed=1)) > 1000
    assert max(len(task.client_examples(client, 10, seed=1)) for client in range(10)) > 500


def test_clients_without_windows_train_nothing() -> None:
    write_dataset(data_folder("few"), dataset_of_roles({"a": ["Hark!"]}, source="text", what="one role"))
    task = ShakespeareTask(data="few", partition="iid", model="small")
    sizes = [len(task.client_examples(client, 3, seed=1)) for client in range(3)]
    assert sorted(sizes) == [0, 0, 1]
    model = task.build_model(seed=1)
    options = TrainingOptions(learning_rate=0.1, batch_size=4)
    device = torch.device("cpu")
    results = [train(model, task, task.client_examples(c, 3, seed=1), options, device=device, seed=1) for c in range(3)]
    assert sorted(result.steps for result in results) == [0, 0, 1]


@pytest.mark.parametrize(("model", "size"), [("lstm", 820_522), ("small", 82_474)])
def test_models(model: str, size: int) -> None:
    task = load_task(f"shakespeare:model={model}")
    built = task.build_model(seed=1)
    assert sum(parameter.numel() for parameter in built.parameters()) == size
    examples = task.test_examples(seed=1)
    outputs = built(examples.inputs[:3])
    assert outputs.shape == (3, 80, 90)
    assert task.loss(outputs, examples.targets[:3]).item() == pytest.approx(math.log(90), abs=0.3)


def test_loss_and_metric_leave_padding_out() -> None:
    task = ShakespeareTask()
    targets = torch.tensor([[5, 6, 0, 0], [7, 0, 0, 0]])
    outputs = torch.randn(2, 4, 90, generator=torch.Generator().manual_seed(1))
    kept = targets != 0
    assert task.loss_weight(targets) == 3
    assert task.loss(outputs, targets).item() == pytest.approx(
        functional.cross_entropy(outputs[kept], targets[kept]).item()
    )
    outputs[0, 0, 5] = outputs[1, 0, 7] = outputs[0, 2, 0] = outputs[1, 3, 0] = 99  # the last two are padding
    outputs[0, 1, 8] = 99
    assert task.correct(outputs, targets) == (2, 3)


def test_a_batch_of_padding_only_counts_nothing() -> None:
    task = ShakespeareTask()
    outputs = torch.randn(2, 4, 90, generator=torch.Generator().manual_seed(1)).requires_grad_()
    nothing = torch.zeros(2, 4, dtype=torch.int64)
    loss = task.loss(outputs, nothing)
    assert (loss.item(), task.loss_weight(nothing), task.correct(outputs, nothing)) == (0.0, 0.0, (0, 0))
    loss.backward()  # type: ignore[no-untyped-call]
    assert outputs.grad is not None
    assert not outputs.grad.any()


def test_training_lowers_the_loss() -> None:
    task = ShakespeareTask(model="small", examples_per_client=40)
    model, examples = task.build_model(seed=1), task.client_examples(0, 10, seed=1)
    options = TrainingOptions(learning_rate=0.1, momentum=0.9, batch_size=4)
    first, *_, last = [
        train(model, task, examples, options, device=torch.device("cpu"), seed=epoch).loss for epoch in range(5)
    ]
    assert first < math.log(90)
    assert last < 0.85 * first


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("model=big", "model = 'big'; allowed: lstm, small"),
        (
            "partition=dirichlet",
            "partition = 'dirichlet', but text has no classes to deal out; use natural, iid or size",
        ),
        ("partition=random", "partition = 'random'; allowed: "),
        ("dirichlet-alpha=1", "unknown option 'dirichlet-alpha'"),
        ("examples-per-client=-1", "examples-per-client = -1; give an integer from 0 to .*; 0 takes all"),
        ("test-examples=1.5", "test-examples = 1.5; give"),
        ("test-examples=true", "test-examples = True; give"),
        ("data=../x", "cannot be a data set's name"),
    ],
)
def test_wrong_options_are_refused(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_task(f"shakespeare:{spec}")


def test_data_that_are_not_there_are_told() -> None:
    with pytest.raises(DataError, match=r"no prepared data set 'plays'.*fedcomp data prepare shakespeare"):
        ShakespeareTask(data="plays")


@pytest.mark.parametrize(("partition_id", "num_partitions"), [(-1, 2), (2, 2), (0, 0)])
def test_partition_that_does_not_exist(partition_id: int, num_partitions: int) -> None:
    with pytest.raises(ConfigError, match=f"partition-id {partition_id} of {num_partitions}"):
        ShakespeareTask().client_examples(partition_id, num_partitions, seed=1)


def test_the_real_speeches_train_a_client(tmp_path: Path) -> None:
    from fedcomp.data.sources import prepare

    real = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "shakespeare"
    if not real.is_dir():
        pytest.skip("the speeches of all plays are not beside the project")
    prepare("shakespeare", str(real), name="shakespeare")
    task = load_task("shakespeare:data=shakespeare,test-examples=100")
    assert "1,389 owners" in task.data_label
    assert len(task.test_examples(seed=1)) == 100
    sizes = np.array([len(task.client_examples(client, 1389, seed=1)) for client in range(0, 1389, 200)])
    assert (sizes > 0).all()
