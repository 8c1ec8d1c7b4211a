"""Is the mean of many decodings the input? The T statistic is 1 when errors are unbiased and independent.

Sample size: T over R decodings of d coordinates is a mean of about d squared normals, so its standard deviation is
sqrt(2/d) for the numerator: 2.2 % at d = 4096. The accepted 0.85–1.15 is then almost seven deviations wide, while a
bias of the size of a tenth of one error adds R/100 = 2 to T at R = 200. Smaller blocks scatter more: at d = 256, 8.8 %,
so there the bounds are 0.6–1.4, which a bias of that size still leaves by far. On fewer coordinates T is averaged over
independent groups of decodings instead: 12 of them at d = 100 (14 % / √12 = 4.1 %), 6 at d = 1000 (4.5 % / √6 =
1.8 %), each of 50.
"""

from __future__ import annotations

import pytest
import torch

import fedcomp
from client_app.training import train_locally
from fedcomp.metrics import t_statistic
from fedcomp.tasks.base import Examples
from fedcomp.tasks.registry import load_task
from fedcomp.training.options import TrainingOptions
from fedcomp.vectors import VectorSpec

REPEATS = 200


def vectors(dim: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(dim)
    gaussian = torch.randn(dim, generator=generator)
    two, three, tail, one = (torch.zeros(dim) for _ in range(4))
    two[:2] = torch.tensor([1.0, 0.5])
    three[:3] = torch.tensor([3.0, 1.0, 1.0])
    tail[-3:] = torch.tensor([3.0, 1.0, 1.0])
    one[dim // 2] = 1.0
    spike = torch.ones(dim)
    spike[7] = 100.0
    return {
        "gaussian": gaussian,
        "lognormal": gaussian.exp(),
        "two": two,
        "three": three,
        "tail": tail,
        "one-hot": one,
        "constant": torch.ones(dim),
        "spike": spike,
    }


def measure(spec: str, x: torch.Tensor, *, repeats: int = REPEATS, group: int = 0) -> float:
    codec = fedcomp.compressor(spec)
    seeds = [fedcomp.derive_seed(b"statistical tests", index, group, "rotation") for index in range(repeats)]
    return t_statistic([fedcomp.decode(codec.encode(x, seed=seed), seed=seed) for seed in seeds], x)


@pytest.mark.parametrize("bits", [0.3, 0.5, 1, 1.25, 1.5, 2, 2.5, 4])
@pytest.mark.parametrize("name", vectors(256))
def test_eden_is_unbiased(bits: float, name: str) -> None:
    assert 0.85 < measure(f"eden:bits={bits}", vectors(4096)[name]) < 1.15


# Which path a trellis takes and where the rate ends depend on all coordinates of a block, or of all blocks; an estimate
# is unbiased all the same. Vectors of few non-zeros and of one direction are where a bias would be largest.
CODES = ["quantizer=trellis", "coding=entropy", "quantizer=trellis,coding=entropy"]
EVERY_RUN = ("two", "spike")


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("bits", [0.3, 1, 2.5])
@pytest.mark.parametrize(
    "name", [name if name in EVERY_RUN else pytest.param(name, marks=pytest.mark.slow) for name in vectors(256)]
)
def test_eden_is_unbiased_in_any_code(code: str, bits: float, name: str) -> None:
    assert 0.85 < measure(f"eden:bits={bits},{code}", vectors(4096)[name]) < 1.15


@pytest.mark.parametrize("code", ["quantizer=lloyd", "quantizer=trellis,coding=entropy"])
@pytest.mark.parametrize("bits", [0.3, 1, 2])
def test_pools_of_like_energy_are_unbiased(bits: float, code: str) -> None:
    # 16,384 coordinates whose energies span six orders of magnitude by row and column. The budget evens the errors out
    # over most coordinates, so that T is as narrow as for flat vectors.
    generator = torch.Generator().manual_seed(3)
    rows, columns = (torch.randn(128, generator=generator).mul(1.2).exp() for _ in range(2))
    x = (torch.randn(128, 128, generator=generator) * rows[:, None] * columns[None, :]).reshape(-1)
    codec = fedcomp.compressor(f"eden:bits={bits},allocation=adaptive,{code}")
    seeds = [fedcomp.derive_seed(b"pools", index, 0, "rotation") for index in range(100)]
    payloads = [codec.encode(x, seed=seed, shapes=[(128, 128)]) for seed in seeds]
    assert payloads[0] != fedcomp.compressor(f"eden:bits={bits},{code}").encode(x, seed=seeds[0])
    decoded = [fedcomp.decode(payload, seed=seed) for payload, seed in zip(payloads, seeds, strict=True)]
    assert 0.85 < t_statistic(decoded, x) < 1.15


@pytest.mark.parametrize("name", ["two", "tail", "constant"])
def test_eden_is_unbiased_with_a_padded_tail(name: str) -> None:
    # 4296 = 4096 + 200: the non-zeros of "tail" sit in a padded block of 256, where T scatters most.
    low, high = (0.6, 1.4) if name == "tail" else (0.85, 1.15)
    assert low < measure("eden:bits=2", vectors(4296)[name]) < high


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("name", vectors(256))
def test_quicfl_is_unbiased(bits: int, name: str) -> None:
    assert 0.85 < measure(f"quicfl:bits={bits}", vectors(4096)[name]) < 1.15


def mean_t(spec: str, name: str, *, dim: int, groups: int) -> float:
    x = vectors(dim)[name]
    return sum(measure(spec, x, repeats=50, group=group) for group in range(groups)) / groups


# All of 100 coordinates, and the last 232 of 1000, are in a block that is padded or sent as float32.
@pytest.mark.parametrize("spec", ["eden:bits=1", "eden:bits=2.5"])
@pytest.mark.parametrize("name", ["two", "tail"])
@pytest.mark.parametrize(("dim", "groups"), [(100, 12), (1000, 6)])
def test_short_vectors_are_unbiased_too(spec: str, name: str, dim: int, groups: int) -> None:
    assert 0.85 < mean_t(spec, name, dim=dim, groups=groups) < 1.15


@pytest.mark.parametrize("dim", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_short_vectors_are_unbiased_in_any_code(dim: int) -> None:
    groups = 12 if dim == 100 else 6
    assert 0.85 < mean_t("eden:bits=2.5,quantizer=trellis,coding=entropy", "two", dim=dim, groups=groups) < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("bits", [0.3, 1, 2.5])
@pytest.mark.parametrize("name", ["tail", "gaussian", "spike"])
@pytest.mark.parametrize(("dim", "groups"), [(100, 12), (1000, 6)])
def test_all_short_vectors_are_unbiased_in_any_code(code: str, bits: float, name: str, dim: int, groups: int) -> None:
    assert 0.85 < mean_t(f"eden:bits={bits},{code}", name, dim=dim, groups=groups) < 1.15


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["eden:bits=0.5", "eden:bits=1.25", "eden:bits=4", "quicfl:bits=1", "quicfl:bits=2"])
@pytest.mark.parametrize("name", vectors(256))
@pytest.mark.parametrize(("dim", "groups"), [(100, 12), (1000, 6)])
def test_all_short_vectors_are_unbiased(spec: str, name: str, dim: int, groups: int) -> None:
    assert 0.85 < mean_t(spec, name, dim=dim, groups=groups) < 1.15


@pytest.fixture(scope="module")
def real_update() -> torch.Tensor:
    """Ten steps of training the CNN: the first 70,000 coordinates, convolutions and part of a dense layer."""
    task = load_task("emnist")
    model = task.build_model(seed=1)
    before = VectorSpec.from_state_dict(model.state_dict()).flatten(model.state_dict())
    examples = task.client_examples(0, 10, seed=1)
    part = Examples(examples.inputs[:200], examples.targets[:200])
    train_locally(model, task, part, TrainingOptions(), device=torch.device("cpu"), seed=1)
    after = VectorSpec.from_state_dict(model.state_dict()).flatten(model.state_dict())
    return (after - before)[:70_000]


@pytest.mark.parametrize(
    "spec",
    [
        "eden:bits=0.5",
        "eden:bits=1",
        "eden:bits=2.5",
        "eden:bits=1,allocation=adaptive",
        "quicfl:bits=2",
        pytest.param("eden:bits=1,allocation=adaptive,quantizer=trellis,coding=entropy", marks=pytest.mark.slow),
    ],
)
def test_a_real_update_is_estimated_without_bias(spec: str, real_update: torch.Tensor) -> None:
    assert 0.85 < measure(spec, real_update) < 1.15


def test_one_rotation_round_is_seen_to_be_biased() -> None:
    # The published scheme: its error on a sparse vector is the same in every repetition.
    assert measure("eden:bits=1,rounds=1", vectors(4096)["two"]) > 10


def test_the_mmse_scale_is_seen_to_be_biased() -> None:
    assert measure("eden:bits=1,scale=mmse", vectors(4096)["gaussian"]) > 10


def test_one_seed_for_all_is_seen_to_be_correlated() -> None:
    codec = fedcomp.compressor("eden:bits=2")
    x = vectors(4096)["gaussian"]
    decoded = fedcomp.decode(codec.encode(x, seed=1), seed=1)
    assert t_statistic([decoded] * REPEATS, x) > 100
