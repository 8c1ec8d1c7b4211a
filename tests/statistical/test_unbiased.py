"""Is the mean of many decodings the input? The T statistic is 1 when errors are unbiased and independent.

Sample size: T over R decodings of d coordinates is a mean of about d squared normals, so its standard deviation is
sqrt(2/d) for the numerator: 2.2 % at d = 4096. The accepted 0.85–1.15 is then almost seven deviations wide, while a
bias of the size of a tenth of one error adds R/100 = 2 to T at R = 200. Smaller blocks scatter more: at d = 256, 8.8 %,
so there the bounds are 0.6–1.4, which a bias of that size still leaves by far.
"""

from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.metrics import t_statistic

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


def measure(spec: str, x: torch.Tensor) -> float:
    codec = fedcomp.compressor(spec)
    seeds = [fedcomp.derive_seed(b"statistical tests", index, 0, "rotation") for index in range(REPEATS)]
    return t_statistic([fedcomp.decode(codec.encode(x, seed=seed), seed=seed) for seed in seeds], x)


@pytest.mark.parametrize("bits", [0.3, 0.5, 1, 1.5, 2, 2.5, 4])
@pytest.mark.parametrize("name", vectors(256))
def test_eden_is_unbiased(bits: float, name: str) -> None:
    assert 0.85 < measure(f"eden:bits={bits}", vectors(4096)[name]) < 1.15


@pytest.mark.parametrize("name", ["two", "tail", "constant"])
def test_eden_is_unbiased_with_a_padded_tail(name: str) -> None:
    # 4296 = 4096 + 200: the non-zeros of "tail" sit in a padded block of 256, where T scatters most.
    low, high = (0.6, 1.4) if name == "tail" else (0.85, 1.15)
    assert low < measure("eden:bits=2", vectors(4296)[name]) < high


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
