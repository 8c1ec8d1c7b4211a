from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.errors import ConfigError
from fedcomp.seeds import COHORT_CLIENT_ID, derive_seed
from server_app.samplers import SAMPLERS, Candidate, draw, inclusion_chances
from server_app.weights import aggregation_weight


def candidates(examples: list[float | None]) -> list[Candidate]:
    return [Candidate(f"client-{index}", index, size) for index, size in enumerate(examples)]


def ids(drawn: list[tuple[Candidate, float]]) -> list[int]:
    return [candidate.client_id for candidate, _ in drawn]


def frequencies(kind: str, pool: list[Candidate], count: int, draws: int) -> list[float]:
    hits = np.zeros(len(pool))
    for seed in range(draws):
        hits[ids(draw(kind, pool, count, seed=seed))] += 1
    return list(hits / draws)


def test_uniform_cohorts_are_those_of_earlier_releases() -> None:
    # The same run must draw the same cohorts; these were drawn before there was a choice.
    expected = [[2, 3, 4, 9], [1, 3, 7, 9]]
    for round_index, cohort in enumerate(expected, start=1):
        seed = derive_seed(b"secret", round_index, COHORT_CLIENT_ID, "cohort")
        drawn = draw("uniform", candidates([None] * 10), 4, seed=seed)
        assert ids(drawn) == cohort
        assert [chance for _, chance in drawn] == [1.0] * 4


def test_unequal_cohorts_stay_what_they_are() -> None:
    pool = [Candidate(str(index), index, index + 1.0, asked=9, replied=index) for index in range(10)]
    assert [ids(draw(kind, pool, 4, seed=7)) for kind in ("examples", "availability")] == [[2, 5, 7, 9]] * 2


@given(
    kind=st.sampled_from(SAMPLERS),
    examples=st.lists(st.none() | st.sampled_from([0.0, 1.0, 50.0, 2.0**53, -3.0, math.nan, math.inf]), max_size=12),
    count=st.integers(0, 14),
    seed=st.integers(0, 2**64 - 1),
    shuffled=st.randoms(use_true_random=False),
)
def test_a_cohort_is_ordered_distinct_and_does_not_depend_on_the_order_given(
    kind: str, examples: list[float | None], count: int, seed: int, shuffled: random.Random
) -> None:
    pool = [
        Candidate(f"client-{index}", 1000 - index, size, asked=index, replied=index // 2)
        for index, size in enumerate(examples)
    ]
    drawn = draw(kind, pool, count, seed=seed)
    assert len(drawn) == (min(count, len(pool)) or len(pool))
    assert ids(drawn) == sorted(set(ids(drawn)))
    assert all(math.isfinite(chance) and chance > 0 for _, chance in drawn)
    shuffled.shuffle(pool)
    assert draw(kind, pool, count, seed=seed) == drawn


@pytest.mark.parametrize("kind", SAMPLERS)
@pytest.mark.parametrize("count", [0, 3, 99])
def test_everybody_takes_part_unless_told_otherwise(kind: str, count: int) -> None:
    pool = candidates([5.0, 100.0, None])
    assert draw(kind, pool[::-1], count, seed=1) == [(candidate, 1.0) for candidate in pool]


@pytest.mark.parametrize("count", [1, 3, 5, 7])
def test_clients_are_drawn_by_their_examples(count: int) -> None:
    # 4,000 draws: a frequency has a standard deviation of at most 0.008; 0.035 is four of them.
    sizes: list[float | None] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 3.0]
    expected = inclusion_chances(np.array(sizes, dtype=float), count)
    assert expected.sum() == pytest.approx(count)
    assert frequencies("examples", candidates(sizes), count, 4000) == pytest.approx(list(expected), abs=0.035)


@given(
    st.lists(st.floats(1, 2.0**53), min_size=2, max_size=30).flatmap(
        lambda weights: st.tuples(st.just(weights), st.integers(1, len(weights) - 1))
    )
)
def test_chances_are_in_proportion_and_at_most_one(drawn: tuple[list[float], int]) -> None:
    weights, count = drawn
    chances = inclusion_chances(np.array(weights), count)
    assert chances.sum() == pytest.approx(count)
    assert (chances <= 1).all()
    free = chances < 1
    ratios = chances[free] / np.array(weights)[free]
    assert ratios == pytest.approx(ratios.mean() if free.any() else 0)
    # Who is certain has at least as many examples as anybody who is not.
    assert min(np.array(weights)[~free], default=math.inf) >= max(np.array(weights)[free], default=0.0) * (1 - 1e-6)


@pytest.mark.parametrize("count", [1, 2, 4, 6])
def test_the_expected_mean_is_the_examples_weighted_one(count: int) -> None:
    sizes = [1.0, 10.0, 20.0, 40.0, 80.0, 300.0, 5.0]
    values = np.array([3.0, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0])
    means, totals = [], []
    for seed in range(3000):
        drawn = draw("examples", candidates(list(sizes)), count, seed=seed)
        weights = [
            aggregation_weight("examples", examples=sizes[candidate.client_id], vnmse=None, chance=chance)
            for candidate, chance in drawn
        ]
        totals.append(sum(weights))
        means.append(np.dot(weights, values[ids(drawn)]) / sum(weights))
    # The weights' sum is the same in each draw, which is what makes the mean exact.
    assert totals == pytest.approx([sum(sizes) * count / len(sizes)] * len(totals))
    expected = np.dot(sizes, values) / sum(sizes)
    error = np.std(means) / math.sqrt(len(means))
    assert abs(np.mean(means) - expected) < 4 * error + 1e-9
    # The test could tell a bias: the plain mean of all is far away.
    assert abs(values.mean() - expected) > 10 * error


def test_relative_chances_have_the_mean_one() -> None:
    sizes: list[float | None] = [1.0, 3.0, 4.0, 8.0]
    chances: dict[int, float] = {}
    for seed in range(100):
        chances |= {
            candidate.client_id: chance for candidate, chance in draw("examples", candidates(sizes), 2, seed=seed)
        }
    assert [chances[index] for index in range(4)] == pytest.approx([0.25, 0.75, 1.0, 2.0])


@pytest.mark.parametrize(
    ("given_sizes", "same_as"),
    [
        ([2.0, 6.0, None, 4.0], [2.0, 6.0, 4.0, 4.0]),
        ([2.0, 6.0, math.nan, 4.0], [2.0, 6.0, 4.0, 4.0]),
        ([2.0, 6.0, -1.0, 4.0], [2.0, 6.0, 4.0, 4.0]),
        ([2.0, 6.0, 2.0**54, 4.0], [2.0, 6.0, 4.0, 4.0]),
        ([2.0, 6.0, 0.0, 4.0], [2.0, 6.0, 1.0, 4.0]),
        ([None, None, None, None], [7.0, 7.0, 7.0, 7.0]),
    ],
)
def test_unknown_sizes_count_as_usual_ones(given_sizes: list[float | None], same_as: list[float | None]) -> None:
    for seed in range(30):
        drawn, expected = (draw("examples", candidates(sizes), 2, seed=seed) for sizes in (given_sizes, same_as))
        assert ids(drawn) == ids(expected)
        assert [chance for _, chance in drawn] == pytest.approx([chance for _, chance in expected])


def test_who_replies_is_asked_more_often() -> None:
    # Whoever was never asked counts as replying every other time.
    pool = [
        Candidate("always", 0, asked=9, replied=9),
        Candidate("new", 1),
        Candidate("never", 2, asked=9, replied=0),
        Candidate("half", 3, asked=9, replied=4),
    ]
    rates = np.array([10 / 11, 1 / 2, 1 / 11, 5 / 11])
    expected = list(rates / rates.sum())
    assert frequencies("availability", pool, 1, 4000) == pytest.approx(expected, abs=0.035)
    assert {chance for seed in range(50) for _, chance in draw("availability", pool, 2, seed=seed)} == {1.0}


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="sampler is 'size'; allowed: uniform, examples, availability"):
        draw("size", candidates([1.0]), 1, seed=1)
    with pytest.raises(ConfigError, match="cohort is of -1 clients"):
        draw("uniform", candidates([1.0]), -1, seed=1)
