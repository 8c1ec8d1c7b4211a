from __future__ import annotations

import math

import pytest
import torch

from fedcomp.tasks.emnist_model_1m import EmnistCnn1M


def test_has_the_published_number_of_parameters() -> None:
    sizes = {name: tuple(parameter.shape) for name, parameter in EmnistCnn1M(seed=1).named_parameters()}
    assert sizes == {
        "conv1.weight": (32, 1, 3, 3),
        "conv1.bias": (32,),
        "conv2.weight": (64, 32, 3, 3),
        "conv2.bias": (64,),
        "dense1.weight": (128, 7744),
        "dense1.bias": (128,),
        "dense2.weight": (62, 128),
        "dense2.bias": (62,),
    }
    assert sum(math.prod(shape) for shape in sizes.values()) == 1_018_174


@pytest.mark.parametrize("n", [1, 5])
def test_maps_images_to_logits(n: int) -> None:
    assert torch.equal(EmnistCnn1M(seed=1).eval()(torch.zeros(n, 1, 28, 28)), torch.zeros(n, 62))


def test_weights_are_glorot_uniform_and_biases_zero() -> None:
    for name, parameter in EmnistCnn1M(seed=3).named_parameters():
        if name.endswith("bias"):
            assert not parameter.any()
            continue
        fan_in = parameter[0].numel()
        fan_out = parameter.shape[0] * parameter[0, 0].numel()
        limit = math.sqrt(6 / (fan_in + fan_out))
        assert 0.95 * limit < parameter.abs().max().item() <= limit
        # A uniform variable's variance has a standard error of 0.9 of itself over the root of n; four of those.
        assert abs(parameter.var().item() / (limit**2 / 3) - 1) < 4 * 0.9 / math.sqrt(parameter.numel())


def test_seed_decides_the_weights_and_global_randomness_is_untouched() -> None:
    before = torch.get_rng_state()
    weights = [torch.nn.utils.parameters_to_vector(EmnistCnn1M(seed=seed).parameters()) for seed in (1, 1, 2)]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize("other", ["dropout1", "dropout2"])
def test_both_dropouts_are_active_in_training_only(other: str) -> None:
    model = EmnistCnn1M(seed=1)
    model.get_submodule(other).p = 0.0  # type: ignore[assignment]
    images = torch.rand(2, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert torch.equal(model(images), model(images))
