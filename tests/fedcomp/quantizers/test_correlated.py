from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcomp.quantizers import correlated
from fedcomp.quantizers.correlated import cohort_noise
from fedcomp.seeds import Stream

COUNT = 20_000


def cohort(n: int, seed: int = 3) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    return np.stack([cohort_noise(seed, COUNT, clients=n, rank=rank) for rank in range(n)])


@pytest.mark.parametrize("n", [1, 2, 3, 10, 33])
def test_each_nth_of_the_interval_has_one_client(n: int) -> None:
    noise = cohort(n)
    assert noise.dtype == np.float32
    assert float(noise.min()) >= 0
    assert float(noise.max()) < 1
    # Multiples of 2^-24 rounded down: a number just above a cell's edge may lie just below it.
    cells = np.floor((noise.astype(np.float64) + 2**-25) * n).astype(int)
    assert np.array_equal(np.sort(cells, axis=0), np.repeat(np.arange(n)[:, None], COUNT, axis=1))


def test_each_client_alone_is_uniform() -> None:
    # Kolmogorov–Smirnov at 20,000 numbers: a distance of 0.0138 is exceeded once in a thousand.
    for noise in cohort(7):
        distance = np.abs(np.sort(noise) - (np.arange(COUNT) + 0.5) / COUNT).max()
        assert distance < 0.0138


def test_pairs_of_clients_are_in_any_two_cells_alike() -> None:
    # 12 ordered pairs of 4 cells; the permutation is drawn 20 times and shifted at each coordinate, so a difference of
    # cells is one draw a 1,024 coordinates. Over 300 seeds each of the three differences has 2,000 of 6,000 draws, with
    # a deviation of 36.5; 180 is five of them.
    counts = np.zeros(4)
    for seed in range(300):
        first, second = (cohort_noise(seed, COUNT, clients=4, rank=rank)[::1024] for rank in (0, 2))
        difference = (np.floor(first * 4) - np.floor(second * 4)).astype(int) % 4
        counts += np.bincount(difference, minlength=4)
    assert counts[0] == 0
    assert np.abs(counts[1:] - counts.sum() / 3).max() < 180


def test_places_within_the_cells_are_independent() -> None:
    # The correlation of 20,000 independent pairs deviates by 0.007.
    within = (cohort(4) * 4) % 1
    assert np.abs(np.corrcoef(within) - np.eye(4)).max() < 0.035


def test_equal_keys_still_give_every_client_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    def equal(seed: int, stream: Stream, count: int, *, substream: int = 0) -> NDArray[np.uint32]:
        return np.full(count, 7, dtype=np.uint32)

    monkeypatch.setattr(correlated, "words", equal)
    cells = [int(cohort_noise(1, 1, clients=5, rank=rank)[0] * 5 + 1e-4) for rank in range(5)]
    assert sorted(cells) == [0, 1, 2, 3, 4]


def test_other_seeds_and_ranks_give_other_noise() -> None:
    base = cohort_noise(1, 100, clients=5, rank=2)
    assert not np.array_equal(base, cohort_noise(2, 100, clients=5, rank=2))
    assert not np.array_equal(base, cohort_noise(1, 100, clients=5, rank=3))
    assert np.array_equal(base, cohort_noise(1, 100, clients=5, rank=2))


def test_no_coordinates_are_no_noise() -> None:
    assert cohort_noise(1, 0, clients=3, rank=1).shape == (0,)
