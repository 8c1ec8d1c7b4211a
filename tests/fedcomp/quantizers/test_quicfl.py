from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fedcomp.quantizers import quicfl
from fedcomp.quantizers.quicfl import (
    DISTORTION,
    OUTLIERS,
    SHARED,
    choose_window,
    dequantize,
    levels,
    message,
    quantize,
    reach,
    shared_numbers,
    windows,
)
from fedcomp.seeds import Stream, words

CPU = torch.device("cpu")
BITS = range(1, 9)


def moments(z: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Return mean and mean square of each number's estimates, over all shared numbers and the rounding; float64."""
    lower, fraction = choose_window(z, bits)
    shared = torch.arange(SHARED[bits])[:, None]
    low = dequantize(message(lower, shared, bits), shared, bits).double()
    high = dequantize(message(lower + 1, shared, bits), shared, bits).double()
    share = fraction.double()
    mean = (low * (1 - share) + high * share).mean(dim=0)
    return mean, (low**2 * (1 - share) + high**2 * share).mean(dim=0)


def error(bits: int, points: int) -> float:
    """Return E(ẑ − z)² for z ~ N(0, 1) within the range, by the midpoint rule."""
    limit = reach(bits)
    z = ((torch.arange(points, dtype=torch.float64) + 0.5) / points * 2 - 1) * limit
    mean, square = moments(z.float(), bits)
    density = torch.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    return float(((square - 2 * z * mean + z * z) * density).sum()) * 2 * limit / points


@pytest.mark.parametrize("bits", BITS)
def test_the_mean_is_the_number(bits: int) -> None:
    z = torch.cat([torch.linspace(-1, 1, 3001) * reach(bits), windows(bits, device=CPU)])
    mean, _ = moments(z, bits)
    # Float32 rounds each level and mean by 1e-7 of the range at most.
    assert float((mean - z.double()).abs().max()) < 3e-7 * reach(bits)


@pytest.mark.parametrize("bits", BITS)
def test_numbers_out_of_range_go_to_its_ends(bits: int) -> None:
    z = torch.tensor([-40.0, -1.0001, 1.0001, 40.0]) * reach(bits)
    mean, _ = moments(z, bits)
    torch.testing.assert_close(mean, z.sign().double() * reach(bits), rtol=1e-6, atol=0)


@pytest.mark.parametrize("bits", BITS)
def test_the_distortion_is_that_of_the_levels(bits: int) -> None:
    # Between the means of two windows the integrand is smooth: five points each at 8 bits, 300 at one.
    assert error(bits, 40_001) == pytest.approx(DISTORTION[bits], rel=2e-4)


@pytest.mark.parametrize("bits", BITS)
def test_the_range_leaves_out_what_it_should(bits: int) -> None:
    assert math.erfc(reach(bits) / math.sqrt(2)) == pytest.approx(OUTLIERS[bits], rel=2e-5)


def exact_error(knots: Tensor, bits: int, limit: float) -> Tensor:
    """Return the error of the levels on these knots, scaled so that the range ends at ``limit``, in closed form.

    ∫ φ and ∫ z φ are differences of Φ and −φ, and between the means of two windows the mean square is linear in z.
    """
    count = SHARED[bits]
    half = count * 2**bits // 2
    position = (torch.arange(half, dtype=torch.float64) + 0.5) * 64 / half
    below = position.long()
    padded = torch.cat([torch.zeros(1, dtype=torch.float64), knots])
    positive = torch.lerp(padded[below], padded[below + 1], position - below)
    table = torch.cat([-positive.flip(0), positive])
    table = table * (limit / table[-count:].mean())
    mean, square = (moment.unfold(0, count, 1).mean(dim=1) for moment in (table, table.square()))
    slope = table[count:] + table[:-count]
    mass, density = torch.special.ndtr(mean), torch.exp(-mean.square() / 2) / math.sqrt(2 * math.pi)
    estimates = ((square[:-1] - slope * mean[:-1]) * mass.diff() - slope * density.diff()).sum()
    numbers = 1 - OUTLIERS[bits] - 2 * limit * density[-1]
    excess: Tensor = estimates - numbers
    return excess


@pytest.mark.parametrize("bits", BITS)
def test_the_knots_are_a_stationary_point(bits: int) -> None:
    limit = float(torch.special.ndtri(torch.tensor(1 - OUTLIERS[bits] / 2, dtype=torch.float64)))
    knots = torch.tensor(quicfl._KNOTS[bits], dtype=torch.float64)
    assert float(exact_error(knots, bits, limit)) == pytest.approx(DISTORTION[bits], rel=1e-8)
    shares = torch.zeros(64, dtype=torch.float64, requires_grad=True)
    (slopes,) = torch.autograd.grad(exact_error(knots * shares.exp(), bits, limit) / DISTORTION[bits], shares)
    # The share of the error that is gained when a knot changes by a share of itself; rounding the knots to 1e-8 leaves
    # the less of it the wider they are apart.
    assert float(slopes.abs().max()) < 1e-9 * 4**bits
    # And it is a minimum: bent along slow or fast waves the knots are worse.
    for wave in (1, 2, 5, 20, 64):
        bend = torch.cos(wave * math.pi * torch.arange(64, dtype=torch.float64) / 64)
        for size in (-0.005, 0.005):
            assert float(exact_error(knots * (1 + size * bend), bits, limit)) > DISTORTION[bits]


@pytest.mark.parametrize("bits", BITS)
def test_levels_are_symmetric_increasing_and_complete(bits: int) -> None:
    table = levels(bits, device=CPU)
    assert len(table) == SHARED[bits] * 2**bits
    assert torch.equal(table, -table.flip(0))
    assert bool((table[1:] > table[:-1]).all())
    means = windows(bits, device=CPU)
    assert bool((means[1:] > means[:-1]).all())
    torch.testing.assert_close(means, -means.flip(0), rtol=0, atol=1e-6)
    assert float(means[0]) == pytest.approx(-reach(bits), rel=1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_a_window_has_the_levels_nearest_to_its_edge(bits: int) -> None:
    # Lagrange's condition, which makes the encoder the best one for the levels.
    count, table = SHARED[bits], levels(bits, device=CPU).double()
    edges = (table[:-count] + table[count:]) / 2
    shared = torch.arange(count)[:, None]
    own = table.view(-1, count)  # by message and shared number
    for start in range(0, len(edges), 1 + len(edges) // 300):
        nearest = (own - edges[start]).abs().amin(dim=0)
        for window in (start, start + 1):
            sent = dequantize(message(torch.tensor([[window]]), shared, bits), shared, bits).double()
            torch.testing.assert_close((sent[:, 0] - edges[start]).abs(), nearest, rtol=0, atol=1e-6)


@pytest.mark.parametrize("bits", BITS)
def test_messages_of_a_whole_range_use_all_bits(bits: int) -> None:
    z = torch.linspace(-1, 1, 20_000) * reach(bits)
    shared = shared_numbers(20_000, bits, seed=1, device=CPU)
    messages = quantize(z, shared, bits, seed=1)
    assert messages.dtype == torch.uint8
    assert set(messages.tolist()) == set(range(2**bits))


@pytest.mark.parametrize("bits", [1, 4, 8])
def test_noise_just_below_one_does_not_leave_the_last_window(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # 1 + (1 − 2^-24) is 2 in float32; such noise comes once in 2^24 numbers.
    def round_up(values: Tensor, *, seed: int) -> Tensor:
        return torch.floor(values + (1 - 2**-24))

    monkeypatch.setattr(quicfl, "round_stochastically", round_up)
    shared = torch.arange(SHARED[bits], dtype=torch.uint8)
    z = torch.full((SHARED[bits],), 2 * reach(bits))
    assert bool((quantize(z, shared, bits, seed=1) == 2**bits - 1).all())


@pytest.mark.parametrize("bits", [1, 2, 8])
def test_drawn_estimates_have_the_mean_and_the_error_of_the_law(bits: int) -> None:
    # n = 2^17 draws a number: the mean deviates by s/√n, s the law's own deviation; six of those are allowed.
    n = 2**17
    for value in (0.0, 0.37, -1.9, 3.1):
        z = torch.full((n,), value)
        mean, square = (float(moment) for moment in moments(z[:1], bits))
        shared = shared_numbers(n, bits, seed=5, device=CPU)
        drawn = dequantize(quantize(z, shared, bits, seed=5), shared, bits).double()
        deviation = math.sqrt(square - mean**2)
        assert abs(float(drawn.mean()) - value) < 6 * deviation / math.sqrt(n) + 1e-6
        assert float(drawn.std()) == pytest.approx(deviation, rel=0.1)


@pytest.mark.parametrize("bits", BITS)
def test_shared_numbers_are_uniform_and_from_a_stream_of_their_own(bits: int) -> None:
    count = SHARED[bits]
    numbers = shared_numbers(100_003, bits, seed=9, device=CPU)
    frequencies = torch.bincount(numbers.long(), minlength=count).double()
    assert len(frequencies) == count
    # Each frequency is about a Poisson number; none of 128 is six deviations off.
    expected = 100_003 / count
    assert float((frequencies - expected).abs().max()) < 6 * math.sqrt(expected)
    assert torch.equal(shared_numbers(10, bits, seed=9, device=CPU), numbers[:10])
    source = words(9, Stream.ROUNDING, 25_001, substream=1).astype("<u4").view(np.uint8)[:100_003]
    assert numbers.tolist() == (source % count).tolist()
