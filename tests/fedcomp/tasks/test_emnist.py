from __future__ import annotations

import math
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from fedcomp.errors import ConfigError
from fedcomp.tasks import glyphs, writers
from fedcomp.tasks.cache import Labelled
from fedcomp.tasks.emnist import EmnistTask


def small() -> EmnistTask:
    return EmnistTask(examples_per_client=30, writers_per_client=3, test_examples=50, test_writers=5)


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the names of the writers that are generated rather than loaded."""
    names: list[str] = []

    def write(writer: str, examples: int, *, seed: int, alpha: float | None) -> Labelled:
        names.append(writer)
        return original(writer, examples, seed=seed, alpha=alpha)

    original = writers.write
    monkeypatch.setattr(writers, "write", write)
    return names


def test_label_says_that_the_data_are_synthetic() -> None:
    assert "synthetic" in EmnistTask.data_label
    assert "not EMNIST" in EmnistTask.data_label
    assert "\n" not in EmnistTask.data_label


@pytest.mark.parametrize("num_partitions", [1, 2, 3, 10, 100])
def test_writers_belong_to_one_client_or_the_test_set(num_partitions: int, generated: list[str]) -> None:
    task = small()
    owned = [task.client_writers(client, num_partitions) for client in range(num_partitions)]
    everyone = [name for names in owned for name in names] + task.test_writers()
    assert len(set(everyone)) == len(everyone) == 3 * num_partitions + 5
    for client in {0, num_partitions - 1}:
        generated.clear()
        task.client_examples(client, num_partitions, seed=1)
        assert generated == owned[client]
    generated.clear()
    task.test_examples(seed=1)
    assert generated == task.test_writers()


def test_no_two_examples_are_the_same() -> None:
    task = small()
    sets = [task.client_examples(client, 4, seed=1) for client in range(4)] + [task.test_examples(seed=1)]
    images = torch.cat([examples.inputs.flatten(1) for examples in sets])
    assert len(torch.unique(images, dim=0)) == len(images) == 4 * 30 + 50


def test_examples_have_the_promised_form() -> None:
    for examples, n in ((small().client_examples(0, 2, seed=1), 30), (small().test_examples(seed=1), 50)):
        assert len(examples) == n
        assert examples.inputs.shape == (n, 1, 28, 28)
        assert examples.inputs.dtype == torch.float32
        assert examples.inputs.min() == 0.0
        assert 0.9 < examples.inputs.max() <= 1.0
        assert (examples.inputs == 0).float().mean() > 0.5
        assert examples.targets.shape == (n,)
        assert examples.targets.dtype == torch.int64
        assert examples.targets.min() >= 0
        assert examples.targets.max() < 62


def test_same_seed_gives_the_same_examples_however_many_clients(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, test = small().client_examples(1, 2, seed=1), small().test_examples(seed=1)
    monkeypatch.setenv("FEDCOMP_HOME", str(tmp_path / "another"))
    again, test_again = small().client_examples(1, 50, seed=1), small().test_examples(seed=1)
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert torch.equal(test.inputs, test_again.inputs)
    assert not torch.equal(first.inputs, small().client_examples(1, 2, seed=2).inputs)
    assert not torch.equal(first.inputs, small().client_examples(0, 2, seed=1).inputs)


def test_clients_are_not_alike_but_all_together_are_balanced() -> None:
    task = EmnistTask(examples_per_client=400)
    shares = np.stack(
        [np.bincount(task.client_examples(client, 10, seed=1).targets, minlength=62) / 400 for client in range(10)]
    )
    overall = shares.mean(axis=0)
    assert overall.min() > 0.3 / 62
    assert overall.max() < 2.5 / 62
    # Total variation from the overall distribution; ten samples of one distribution would be at 0.14.
    assert np.abs(shares - overall).sum(axis=1).mean() / 2 > 0.18
    one_writer = EmnistTask(writers_per_client=1, dirichlet_alpha=0.1).client_examples(0, 1, seed=1)
    assert len(torch.unique(one_writer.targets)) < 30


def test_test_set_is_balanced() -> None:
    examples = EmnistTask().test_examples(seed=1)
    counts = np.bincount(examples.targets, minlength=62)
    assert len(examples) == 2000
    assert counts.min() > 20
    assert counts.max() < 45


def test_targets_belong_to_the_inputs() -> None:
    # The nearest class mean of some writers' characters tells those of others far better than chance, 0.016.
    training = EmnistTask(examples_per_client=2000, writers_per_client=30).client_examples(0, 1, seed=1)
    test = EmnistTask(test_examples=500).test_examples(seed=1)
    inputs = training.inputs.flatten(1)
    means = torch.stack([inputs[training.targets == k].mean(dim=0) for k in range(62)])
    nearest = torch.cdist(test.inputs.flatten(1), means).argmin(dim=1)
    assert (nearest == test.targets).float().mean() > 0.3


def test_second_request_is_loaded(generated: list[str]) -> None:
    first = small().client_examples(0, 2, seed=1)
    assert len(generated) == 3
    second = small().client_examples(0, 2, seed=1)
    assert len(generated) == 3
    assert torch.equal(first.inputs, second.inputs)
    assert torch.equal(first.targets, second.targets)


def test_every_parameter_is_part_of_the_key(generated: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    base = {"examples_per_client": 4, "writers_per_client": 2, "dirichlet_alpha": 0.5}

    def request(seed: int = 1, client: int = 0, **changed: float) -> None:
        generated.clear()
        EmnistTask(**{**base, **changed}).client_examples(client, 9, seed=seed)  # type: ignore[arg-type]
        assert generated, "came from the cache"

    request()
    request(seed=2)
    request(client=1)
    request(examples_per_client=5)
    request(writers_per_client=3)
    request(dirichlet_alpha=0.6)
    monkeypatch.setattr(writers, "GENERATOR_VERSION", 0)
    request()
    monkeypatch.setattr(glyphs, "versions", lambda: {"pillow": "0"})
    request()


def test_damaged_cache_file_is_made_again(fedcomp_home: Path, generated: list[str]) -> None:
    first = small().client_examples(0, 2, seed=1)
    (file,) = (fedcomp_home / "cache" / "glyphs").iterdir()
    file.write_bytes(file.read_bytes()[:100])
    second = small().client_examples(0, 2, seed=1)
    assert len(generated) == 6
    assert torch.equal(first.inputs, second.inputs)


@pytest.mark.parametrize("examples", [1, 2, 7])
def test_clients_with_few_examples(examples: int) -> None:
    found = EmnistTask(examples_per_client=examples).client_examples(0, 1, seed=1)
    assert len(found) == len(found.targets) == examples


def test_is_fast_enough_not_to_matter() -> None:
    task = EmnistTask()
    task.client_examples(0, 2, seed=1)  # loads the fonts
    start = time.perf_counter()
    task.client_examples(1, 2, seed=1)
    made = time.perf_counter()
    task.client_examples(1, 2, seed=1)
    loaded = time.perf_counter()
    assert made - start < 3.0  # .15 s when nothing else runs
    assert loaded - made < 0.5  # 4 ms


@pytest.mark.parametrize(("partition_id", "num_partitions"), [(-1, 2), (2, 2), (0, 0)])
def test_partition_that_does_not_exist(partition_id: int, num_partitions: int) -> None:
    with pytest.raises(ConfigError, match=f"partition-id {partition_id} of {num_partitions}"):
        small().client_examples(partition_id, num_partitions, seed=1)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("examples_per_client", 0),
        ("writers_per_client", -1),
        ("test_examples", 2.5),
        ("test_writers", True),
        ("test_writers", 10**7),
        ("dirichlet_alpha", 0),
        ("dirichlet_alpha", math.inf),
        ("dirichlet_alpha", math.nan),
        ("dirichlet_alpha", "x"),
    ],
)
def test_impossible_options_are_refused(option: str, value: object) -> None:
    with pytest.raises(ConfigError, match=option.replace("_", "-") + " = .*; give "):
        EmnistTask(**{option: value})  # type: ignore[arg-type]


def test_model_loss_and_metric_fit_together() -> None:
    task = small()
    examples = task.client_examples(0, 1, seed=1)
    model = task.build_model(seed=1)
    loss = task.loss(model(examples.inputs), examples.targets)
    assert loss.shape == ()
    assert 3.0 < loss.item() < 7.0
    loss.backward()  # type: ignore[no-untyped-call]
    outputs = torch.nn.functional.one_hot(examples.targets, 62).float()
    assert task.correct(outputs, examples.targets) == (30, 30)
    assert task.loss(100 * outputs, examples.targets).item() == pytest.approx(0, abs=1e-6)


def test_generation_order_is_shuffled_over_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(writer: str, examples: int, *, seed: int, alpha: float | None) -> Labelled:
        return np.zeros((examples, 28, 28), np.uint8), np.full(examples, int(writer.split("-")[1]), np.int64)

    monkeypatch.setattr(writers, "write", write)
    targets = EmnistTask(examples_per_client=600, writers_per_client=6).client_examples(0, 1, seed=1).targets
    assert torch.bincount(targets).tolist() == [100] * 6
    assert len(torch.unique(targets[:60])) == 6
