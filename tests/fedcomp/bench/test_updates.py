from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedcomp.bench.distributions import load_update
from fedcomp.bench.updates import UpdateSettings, collect_updates
from fedcomp.commands.main import app
from fedcomp.tasks.base import Examples
from tests.support.tiny_task import TinyTask

SETTINGS = UpdateSettings(clients=3, learning_rate=0.1)


def test_updates_are_what_the_first_client_of_a_round_learned() -> None:
    items = list(collect_updates(TinyTask(), [1, 3], SETTINGS))
    assert [item.round_index for item in items] == [1, 2, 3]
    assert [bool(item.tensors) for item in items] == [True, False, True]
    model = TinyTask().build_model(seed=1)
    assert {name: value.shape for name, value in items[0].tensors.items()} == {
        name: value.shape for name, value in model.state_dict().items()
    }
    assert all(bool(value.any()) for value in items[0].tensors.values())
    assert not torch.equal(items[0].tensors["0.weight"], items[2].tensors["0.weight"])


def test_they_repeat_and_another_seed_gives_others() -> None:
    first, again = (list(collect_updates(TinyTask(), [2], SETTINGS))[1].tensors for _ in range(2))
    other = list(collect_updates(TinyTask(), [2], UpdateSettings(clients=3, learning_rate=0.1, seed=2)))[1].tensors
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["0.weight"], other["0.weight"])


def test_training_goes_on_from_the_mean() -> None:
    # The updates grow smaller as the task is learned; without the mean each round would begin anew.
    items = list(collect_updates(TinyTask(), [1, 30], SETTINGS))
    first, last = (sum(float(v.square().sum()) for v in items[index].tensors.values()) for index in (0, 29))
    assert last < 0.2 * first


def test_the_command_saves_files_that_dme_reads(tmp_path: Path) -> None:
    task = "tests.support.tiny_task:TinyTask"
    words = ["bench", "updates", "--task", task, "--round", "2", "--clients", "2", "--out", str(tmp_path / "made")]
    shown = CliRunner().invoke(app, words, catch_exceptions=False)
    assert shown.exit_code == 0
    path = tmp_path / "made" / "round-00002.safetensors"
    assert f"{path}: update of round 2, 4 tensors" in shown.output.replace("\n", "")
    assert load_update(path).vector.numel() == 8 * 40 + 40 + 40 * 2 + 2
    measured = ["bench", "dme", "--update", str(path), "--scheme", "eden:bits=2", "--clients", "1", "--repeats", "1"]
    assert CliRunner().invoke(app, measured, catch_exceptions=False).exit_code == 0


class PaddedTask(TinyTask):
    """Targets of class 1 are padding; with one example a batch, batches of nothing else come up."""

    def loss_weight(self, targets: torch.Tensor) -> float:
        return float((targets == 0).sum())

    def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
        examples = super().client_examples(partition_id, num_partitions, seed=seed)
        # What counts comes first in no order, so it is a constant: only padding could tell the orders apart.
        inputs = torch.where((examples.targets == 0)[:, None], torch.ones(8), examples.inputs)
        return Examples(inputs, examples.targets)


def test_a_batch_of_padding_only_is_no_step() -> None:
    settings = UpdateSettings(clients=1, batch_size=1, learning_rate=0.1)
    padded = next(collect_updates(PaddedTask(), [1], settings)).tensors

    class Bare(PaddedTask):
        def client_examples(self, partition_id: int, num_partitions: int, *, seed: int) -> Examples:
            examples = super().client_examples(partition_id, num_partitions, seed=seed)
            kept = examples.targets == 0
            return Examples(examples.inputs[kept], examples.targets[kept])

    bare = next(collect_updates(Bare(), [1], settings)).tensors
    assert all(torch.equal(padded[name], bare[name]) for name in bare)


def test_the_character_lstm_has_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCOMP_HOME", str(tmp_path / "home"))
    task = "shakespeare:model=small,examples-per-client=20"
    words = ["bench", "updates", "--task", task, "--round", "1", "--clients", "2", "--out", str(tmp_path / "made")]
    assert CliRunner().invoke(app, words, catch_exceptions=False).exit_code == 0
    update = load_update(tmp_path / "made" / "round-00001.safetensors")
    assert update.vector.numel() == 82_474
    assert bool(update.vector.isfinite().all())
    assert bool(update.vector.any())


def test_a_round_that_is_not_there_is_refused() -> None:
    shown = CliRunner().invoke(app, ["bench", "updates", "--out", "x", "--round", "0"])
    assert shown.exit_code == 2
    assert "0 is not in the range" in shown.output


@pytest.mark.parametrize("name", ["0.weight", "2.bias"])
def test_the_global_random_state_is_left_alone(name: str) -> None:
    torch.manual_seed(4)
    expected = torch.rand(3)
    torch.manual_seed(4)
    assert name in next(collect_updates(TinyTask(), [1], SETTINGS)).tensors
    assert torch.equal(torch.rand(3), expected)
