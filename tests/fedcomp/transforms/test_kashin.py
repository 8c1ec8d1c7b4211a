from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.transforms.hadamard import rotate, rotation_signs, unrotate
from fedcomp.transforms.kashin import ITERATIONS, LEVELS, kashin_coefficients, synthesize

CPU = torch.device("cpu")
BLOCK = 16384


def vectors(n: int, seed: int = 0) -> dict[str, torch.Tensor]:
    gaussian = torch.randn(n, generator=torch.Generator().manual_seed(seed))
    one, three, spike = torch.zeros(n), torch.zeros(n), torch.ones(n)
    one[n // 3] = 1.0
    three[-3:] = torch.tensor([3.0, 1.0, -1.0])
    spike[7] = 1000.0
    return {
        "gaussian": gaussian,
        "lognormal": gaussian.exp(),
        "one": one,
        "three": three,
        "constant": -torch.ones(n),
        "spike": spike,
    }


def signs_for(count: int, seed: int = 5) -> torch.Tensor:
    return rotation_signs(seed, count, rounds=2, device=CPU)


def bound(coefficients: torch.Tensor, x: torch.Tensor) -> float:
    """Return Kashin's constant: max|a|·√N/‖x‖."""
    return float(coefficients.abs().max()) * math.sqrt(coefficients.numel()) / float(x.double().norm())


def with_shrinking_levels(x: torch.Tensor, signs: torch.Tensor, expansion: int, steps: int) -> torch.Tensor:
    """Lyubarskii and Vershynin's algorithm, with the first level and the factor that suit it best here."""
    n = x.shape[1]
    level = 0.9 * float(x.norm()) / math.sqrt(n * expansion)
    coefficients, rest = torch.zeros(1, n * expansion), x
    for _ in range(steps):
        clipped = rotate(torch.nn.functional.pad(rest, (0, n * expansion - n)), signs).clamp(-level, level)
        coefficients, rest, level = coefficients + clipped, rest - unrotate(clipped, signs)[:, :n], level / 2
    return coefficients + rotate(torch.nn.functional.pad(rest, (0, n * expansion - n)), signs)


@pytest.mark.parametrize("expansion", LEVELS)
def test_the_frame_is_tight(expansion: int) -> None:
    x = vectors(512)["gaussian"][None]
    signs = signs_for(512 * expansion)
    shortest = rotate(torch.nn.functional.pad(x, (0, 512 * expansion - 512)), signs)
    torch.testing.assert_close(synthesize(shortest, signs, expansion=expansion), x, rtol=0, atol=1e-5)
    assert float(shortest.norm()) == pytest.approx(float(x.norm()), rel=1e-5)


@given(
    st.sampled_from(sorted(vectors(256))),
    st.sampled_from(sorted(LEVELS)),
    st.sampled_from([256, 512, 2048]),
    st.integers(0, 2**64 - 1),
)
def test_nothing_of_the_vector_is_lost(name: str, expansion: int, n: int, seed: int) -> None:
    x = vectors(n, seed % 2**31)[name][None]
    signs = signs_for(n * expansion, seed)
    coefficients = kashin_coefficients(x, signs, expansion=expansion)
    error = synthesize(coefficients, signs, expansion=expansion) - x
    assert float(error.norm()) < 1e-6 * float(x.norm())
    # Small blocks scatter: of a thousand of 512 coefficients the worst had 1.95.
    assert bound(coefficients, x) < 2.3


@pytest.mark.parametrize("name", vectors(256))
@pytest.mark.parametrize(("expansion", "most"), [(2, 1.65), (4, 1.45), (8, 1.4)])
def test_no_coefficient_of_a_whole_block_is_large(name: str, expansion: int, most: float) -> None:
    x = vectors(BLOCK // expansion)[name][None]
    signs = signs_for(BLOCK)
    # Not below the level either: then fewer iterations would do.
    assert 0.99 * LEVELS[expansion] < bound(kashin_coefficients(x, signs, expansion=expansion), x) < most


def test_rotated_only_or_with_shrinking_levels_they_are_larger() -> None:
    x = vectors(BLOCK // 2)["gaussian"][None]
    signs = signs_for(BLOCK)
    assert bound(rotate(torch.nn.functional.pad(x, (0, BLOCK // 2)), signs), x) > 3.5
    assert bound(with_shrinking_levels(x, signs, 2, ITERATIONS[2]), x) > 1.85


def test_zero_stays_zero() -> None:
    coefficients = kashin_coefficients(torch.zeros(2, 256), signs_for(512), expansion=2)
    assert torch.equal(coefficients, torch.zeros(2, 512))


@pytest.mark.parametrize("scale", [2.0**80, 2.0**-80])
def test_coefficients_have_the_units_of_the_vector(scale: float) -> None:
    x = vectors(256)["lognormal"][None]
    found = kashin_coefficients(x * scale, signs_for(512), expansion=2)
    assert torch.equal(found, kashin_coefficients(x, signs_for(512), expansion=2) * scale)


def test_each_block_is_on_its_own() -> None:
    x = torch.stack([1e6 * vectors(256)["gaussian"], torch.zeros(256), vectors(256)["three"]])
    together = kashin_coefficients(x, signs_for(1024), expansion=4)
    for row in range(3):
        assert torch.equal(kashin_coefficients(x[row : row + 1], signs_for(1024), expansion=4)[0], together[row])
