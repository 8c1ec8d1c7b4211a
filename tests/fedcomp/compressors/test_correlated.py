from __future__ import annotations

import pytest
import torch

import fedcomp
from fedcomp.errors import ConfigError

DIM, CLIENTS, REPEATS = 4096, 10, 8


def mean_error(spec: str, *, noise: float, shared: bool = True) -> float:
    """Return E‖mean x̂ − mean x‖² / mean ‖x‖² of clients that hold a common vector and noise of their own."""
    codec = fedcomp.compressor(spec)
    error = 0.0
    for repeat in range(REPEATS):
        generator = torch.Generator().manual_seed(repeat)
        common = torch.randn(DIM, generator=generator)
        vectors = [common + noise * torch.randn(DIM, generator=generator) for _ in range(CLIENTS)]
        total = torch.zeros(DIM)
        for rank, x in enumerate(vectors):
            seed = repeat if shared and codec.shares_seed else repeat * CLIENTS + rank
            total += fedcomp.decode(codec.for_member(rank, CLIENTS).encode(x, seed=seed), seed=seed)
        mean = torch.stack(vectors).mean(dim=0)
        energy = torch.stack(vectors).square().sum(dim=1).mean()
        error += float((total / CLIENTS - mean).square().sum() / energy)
    return error / REPEATS


# A mean error of 8·4096 coordinates deviates by less than 2 %.
@pytest.mark.parametrize("bits", [1, 2, 4])
def test_errors_of_equal_vectors_cancel(bits: int) -> None:
    # Independent errors give 1/n of one client's; correlated ones about 1/n², if all round alike.
    assert mean_error(f"correlated:bits={bits}", noise=0) < 1.5 / CLIENTS * mean_error(f"hadamard:bits={bits}", noise=0)


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_unlike_vectors_gain_too(bits: int) -> None:
    assert mean_error(f"correlated:bits={bits}", noise=3) < 0.6 * mean_error(f"hadamard:bits={bits}", noise=3)


def test_a_seed_a_client_loses_the_gain() -> None:
    alone = mean_error("correlated:bits=2", noise=0, shared=False)
    assert alone > 5 * mean_error("correlated:bits=2", noise=0)


def test_a_member_is_told_its_place() -> None:
    member = fedcomp.compressor("correlated:bits=2").for_member(3, 8)
    assert str(member.spec) == "correlated:bits=2,clients=8,rank=3"
    assert fedcomp.compressor("eden").for_member(3, 8) == fedcomp.compressor("eden")
    with pytest.raises(ConfigError, match="4097 clients; allowed: at most 4096"):
        fedcomp.compressor("correlated").for_member(0, 4097)
