from __future__ import annotations

import math

import pytest
import torch

from fedcomp.tasks.emnist_model import EmnistCnn


def test_has_the_published_number_of_parameters() -> None:
    sizes = {name: tuple(parameter.shape) for name, parameter in EmnistCnn(seed=1).named_parameters()}
    assert sizes == {
        "conv1.weight": (32, 1, 3, 3),
        "conv1.bias": (32,),
        "conv2.weight": (64, 32, 3, 3),
        "conv2.bias": (64,),
        "dense1.weight": (128, 9216),
        "dense1.bias": (128,),
        "dense2.weight": (62, 128),
        "dense2.bias": (62,),
    }
    assert sum(math.prod(shape) for shape in sizes.values()) == 1_206_590


@pytest.mark.parametrize("n", [1, 5])
def test_maps_images_to_logits(n: int) -> None:
    logits = EmnistCnn(seed=1).eval()(torch.zeros(n, 1, 28, 28))
    assert logits.shape == (n, 62)
    assert torch.equal(logits, torch.zeros(n, 62))  # zero biases


def test_weights_are_glorot_normal_and_biases_zero() -> None:
    for name, parameter in EmnistCnn(seed=3).named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
            continue
        fan_in = parameter[0].numel()
        fan_out = parameter.shape[0] * parameter[0, 0].numel()
        spread = math.sqrt(2 / (fan_in + fan_out))
        assert abs(parameter.std().item() / spread - 1) < 4 / math.sqrt(2 * parameter.numel())
        largest_of_normal = math.sqrt(2 * math.log(parameter.numel())) - 1
        assert parameter.abs().max().item() > largest_of_normal * spread  # a uniform distribution ends at 1.73


def test_seed_decides_the_weights() -> None:
    def weights(seed: int) -> torch.Tensor:
        return torch.nn.utils.parameters_to_vector(EmnistCnn(seed=seed).parameters())

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


def test_global_randomness_is_untouched() -> None:
    before = torch.get_rng_state()
    EmnistCnn(seed=1)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("other", ["dropout1", "dropout2"])
def test_both_dropouts_are_active_in_training_only(other: str) -> None:
    model = EmnistCnn(seed=1)
    model.get_submodule(other).p = 0.0  # type: ignore[assignment]
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert torch.equal(model(images), model(images))
