"""Is each scheme that says so unbiased, coordinate by coordinate?

Where the error sits in a few coordinates T has a wide law of its own, so each coordinate's mean error is compared with
its own standard error: z = mean·sqrt(R)/deviation. At R = 400 decodings of 300 coordinates the largest |z| of 300
normals exceeds 5.5 once in 90,000 vectors, while a bias of half a deviation gives z = 10.

A coordinate that is rounded away with probability p = 1/1000 shows no deviation in 400 decodings. Its law has two
points a step apart, so its deviation is sqrt(|mean error|·step) at least; the largest error seen stands for the step.
Rounding to the nearest, a bias of up to half a step, still gives z = 14.
"""

from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.compressors.catalogue import SCHEMES

REPEATS, DIM = 400, 300
UNBIASED = [
    scheme.name for scheme in SCHEMES if fedcomp.compressor(scheme.name).is_unbiased and scheme.name != "identity"
]
SPECS = [*UNBIASED, "hadamard:bits=1", "qsgd:bits=2", "qsgd:bits=8,norm=max", "eden:bits=0.5", "randk:fraction=0.3"]
SPECS += ["qsgd:levels=1,coding=entropy", "correlated:bits=1,clients=7,rank=6"]
SPECS += ["eden:bits=3,quantizer=trellis,coding=entropy"]


def vectors() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(DIM)
    gaussian = torch.randn(DIM, generator=generator)
    sparse, spike = torch.zeros(DIM), torch.ones(DIM)
    sparse[:3] = torch.tensor([3.0, 1.0, -1.0])
    spike[7] = 50.0
    return {
        "gaussian": gaussian,
        "lognormal": gaussian.exp(),
        "sparse": sparse,
        "spike": spike,
        "tiny": gaussian * 1e-12,
    }


def z_scores(spec: str, x: torch.Tensor) -> torch.Tensor:
    codec = fedcomp.compressor(spec)
    seeds = [fedcomp.derive_seed(b"schemes", index, 0, "rotation") for index in range(REPEATS)]
    errors = torch.stack([fedcomp.decode(codec.encode(x, seed=seed), seed=seed) - x for seed in seeds]).double()
    mean = errors.mean(dim=0)
    two_points = (mean.abs() * errors.abs().max()).sqrt()
    # A coordinate that is always right has no deviation; rounding to float32 is let pass.
    floor = torch.full_like(mean, 1e-6 * float(x.abs().max()))
    deviation: torch.Tensor = torch.stack([errors.std(dim=0), two_points, floor]).amax(dim=0)
    scores: torch.Tensor = mean * REPEATS**0.5 / deviation
    return scores


# Two vectors in every run, one that fills all coordinates and one that fills few; the others in the long one.
EVERY_RUN = ("lognormal", "sparse")
NAMES = [name if name in EVERY_RUN else pytest.param(name, marks=pytest.mark.slow) for name in vectors()]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("spec", SPECS)
def test_each_coordinate_is_unbiased(spec: str, name: str) -> None:
    assert float(z_scores(spec, vectors()[name]).abs().max()) < 5.5


@pytest.mark.parametrize("spec", ["sign", "topk:fraction=0.1", "eden:bits=1,scale=mmse"])
def test_a_biased_scheme_is_seen(spec: str) -> None:
    assert not fedcomp.compressor(spec).is_unbiased
    assert float(z_scores(spec, vectors()["gaussian"]).abs().max()) > 8
