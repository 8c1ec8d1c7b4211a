from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedcomp.data.errors import MissingData
from fedcomp.data.sources import prepare
from fedcomp.errors import ConfigError
from fedcomp.tasks.base import Examples
from fedcomp.tasks.emnist import EmnistTask
from fedcomp.tasks.registry import load_task
from fedcomp.training.loop import train
from fedcomp.training.options import TrainingOptions
from tests.support.femnist_forms import characters, write_idx, write_leaf

SIZES = {"a": 0, "b": 1, "c": 2, "d": 10, "e": 20, "f": 30}


@pytest.fixture
def femnist(tmp_path: Path) -> str:
    write_leaf(tmp_path / "leaf" / "train" / "0.json", characters(SIZES, seed=1))
    write_leaf(tmp_path / "leaf" / "test" / "0.json", characters({"d": 5, "e": 6}, seed=2))
    return prepare("emnist", str(tmp_path / "leaf"), name="femnist").digest


@pytest.fixture
def ownerless(tmp_path: Path) -> None:
    for split, n in (("train", 500), ("test", 60)):
        write_idx(tmp_path / "idx", "emnist-byclass", split, *characters({"": n}, seed=n)[""])
    prepare("emnist", str(tmp_path / "idx"), name="emnist")


def test_label_says_which_data(femnist: str) -> None:
    label = load_task("emnist:data=femnist").data_label
    assert label.startswith("FEMNIST: 63 training and 11 test characters")
    assert label.endswith(f"[data {femnist[:8]}]")
    assert "synthetic" not in label
    assert "synthetic" in EmnistTask().data_label


@pytest.mark.usefixtures("femnist")
def test_writers_are_clients() -> None:
    task = load_task("emnist:data=femnist")
    parts = [task.client_examples(client, 6, seed=1) for client in range(6)]
    assert sorted(len(part) for part in parts) == sorted(SIZES.values())
    assert len(task.test_examples(seed=1)) == 11
    for part in parts:
        assert part.inputs.shape == (len(part), 1, 28, 28)
        assert part.inputs.dtype == torch.float32
        assert part.targets.shape == (len(part),)
        assert part.targets.dtype == torch.int64
    biggest = max(parts, key=len)
    images, labels = characters(SIZES, seed=1)["f"]
    assert np.array_equal(np.rint(255 * biggest.inputs[:, 0].numpy()), images)
    assert np.array_equal(biggest.targets.numpy(), labels)
    with pytest.raises(ConfigError, match="7 clients but 6 owners"):
        task.client_examples(0, 7, seed=1)
    with pytest.raises(ConfigError, match="partition-id 6 of 6"):
        task.client_examples(6, 6, seed=1)


@pytest.mark.parametrize("partition", ["natural", "iid", "dirichlet", "size"])
@pytest.mark.usefixtures("femnist")
def test_every_partition_deals_everything_out_once(partition: str) -> None:
    task = EmnistTask(data="femnist", partition=partition)
    images = torch.cat([task.client_examples(client, 5, seed=1).inputs for client in range(5)])
    assert len(images) == len(torch.unique(images.flatten(1), dim=0)) == 63


@pytest.mark.usefixtures("ownerless")
def test_without_owners_classes_are_skewed() -> None:
    task = EmnistTask(data="emnist", dirichlet_alpha=0.01)
    same = EmnistTask(data="emnist", dirichlet_alpha=0.01, partition="dirichlet")
    classes = []
    for client in range(5):
        part = task.client_examples(client, 5, seed=1)
        assert torch.equal(part.inputs, same.client_examples(client, 5, seed=1).inputs)
        classes.append(len(torch.unique(part.targets)))
    assert sum(classes) < 62 * 1.3  # nearly every class at one client only
    with pytest.raises(ConfigError, match="'natural', but these data do not say who wrote what"):
        EmnistTask(data="emnist", partition="natural")


@pytest.mark.usefixtures("ownerless")
def test_caps_are_seeded_samples() -> None:
    whole = EmnistTask(data="emnist", partition="iid")
    capped = EmnistTask(data="emnist", partition="iid", examples_per_client=7, test_examples=9)
    for seed in (1, 2):
        everything = {image.tobytes() for image in whole.client_examples(0, 3, seed=seed).inputs.numpy()}
        some = [image.tobytes() for image in capped.client_examples(0, 3, seed=seed).inputs.numpy()]
        assert len(set(some)) == 7
        assert set(some) < everything
    assert len(whole.test_examples(seed=1)) == 60
    assert len(capped.test_examples(seed=1)) == 9
    assert torch.equal(capped.test_examples(seed=1).inputs, capped.test_examples(seed=1).inputs)
    assert not torch.equal(capped.test_examples(seed=1).inputs, capped.test_examples(seed=2).inputs)
    assert len(EmnistTask(data="emnist", examples_per_client=0).client_examples(0, 1, seed=1)) == 500


@pytest.mark.parametrize("examples", [0, 1, 2])
@pytest.mark.usefixtures("femnist")
def test_training_with_few_examples(examples: int) -> None:
    task = load_task("emnist:data=femnist,model=1m")
    part = next(p for p in (task.client_examples(i, 6, seed=1) for i in range(6)) if len(p) == examples)
    model = task.build_model(seed=1)
    before = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    result = train(model, task, part, TrainingOptions(learning_rate=0.1), device=torch.device("cpu"), seed=1)
    after = torch.nn.utils.parameters_to_vector(model.parameters()).detach()
    assert result.steps == (1 if examples else 0)
    assert torch.equal(before, after) == (examples == 0)
    assert bool(torch.isfinite(after).all())


def test_the_models() -> None:
    sizes = {
        name: sum(p.numel() for p in load_task(f"emnist:model={name}").build_model(seed=1).parameters())
        for name in ("cnn", "1m")
    }
    assert sizes == {"cnn": 1_206_590, "1m": 1_018_174}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("model=2m", "model = '2m'; allowed: cnn, 1m"),
        ("partition=iid", "partition = 'iid' applies to prepared data, this is data=synthetic"),
        ("data=femnist,writers-per-client=3", "writers-per-client = 3 applies to data=synthetic, this is data=femnist"),
        ("data=femnist,test-writers=3", "test-writers = 3 applies to data=synthetic"),
        ("data=femnist,dirichlet-alpha=1", "dirichlet-alpha = 1 applies to partition=dirichlet, this is partition=nat"),
        ("data=femnist,partition=dirichlet,dirichlet-alpha=0", "dirichlet-alpha = 0; give a positive number"),
        ("data=femnist,partition=x", "partition = 'x'; allowed: natural, iid, dirichlet, size"),
        ("data=femnist,examples-per-client=-1", "examples-per-client = -1; give an integer from 0 .*; 0 takes all"),
        ("data=femnist,test-examples=x", "test-examples = 'x'; give an integer from 0"),
        ("data=2024", "2024 cannot be a data set's name"),
        ("data=Femnist", "'Femnist' cannot be a data set's name"),
    ],
)
@pytest.mark.usefixtures("femnist")
def test_options_that_do_not_apply_are_refused(spec: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_task(f"emnist:{spec}")


def test_data_that_were_not_prepared() -> None:
    with pytest.raises(MissingData, match=r"no prepared data set 'emnist' in .*fedcomp data prepare emnist --from"):
        load_task("emnist:data=emnist")


@pytest.mark.usefixtures("ownerless")
def test_simulated_writers_are_those_of_synthetic_data() -> None:
    task = EmnistTask(data="emnist")
    with pytest.raises(ConfigError, match="only data=synthetic has simulated writers"):
        task.client_writers(0, 1)
    assert isinstance(task.client_examples(0, 1, seed=1), Examples)
