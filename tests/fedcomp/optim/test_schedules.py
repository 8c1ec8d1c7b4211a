from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.errors import ConfigError
from fedcomp.optim.schedules import LARGEST, Constant, Cosine, Exponential, Linear, Schedule, Step

warmups = st.integers(0, 30)
ends = st.floats(0, 1000)
factors = st.floats(0.001, 1000)
every_kind: st.SearchStrategy[Schedule] = st.one_of(
    st.builds(Constant, warmups),
    st.builds(Linear, warmups, ends),
    st.builds(Step, warmups, st.integers(1, 50), factors),
    st.builds(Exponential, warmups, factors),
    st.builds(Cosine, warmups, ends, st.integers(0, 20), st.floats(1, 10)),
)


def curve(schedule: Schedule, num_rounds: int) -> list[float]:
    return [schedule.factor(index, num_rounds) for index in range(1, num_rounds + 1)]


def restarts(schedule: Schedule, num_rounds: int) -> list[int]:
    return [index for index in range(1, num_rounds + 1) if schedule.restarts_at(index, num_rounds)]


@given(schedule=every_kind, num_rounds=st.integers(1, 10**6), data=st.data())
def test_every_factor_is_finite_and_none_negative(schedule: Schedule, num_rounds: int, data: st.DataObject) -> None:
    for index in (1, data.draw(st.integers(1, num_rounds)), num_rounds, data.draw(st.integers(1, 10**9))):
        value = schedule.factor(index, num_rounds)
        assert type(value) is float
        assert 0 <= value <= LARGEST


@given(schedule=every_kind, num_rounds=st.integers(1, 100))
def test_warm_up_is_a_straight_line_to_1_from_which_the_schedule_begins(schedule: Schedule, num_rounds: int) -> None:
    first = max(schedule.warmup, 1)
    values = [schedule.factor(index, num_rounds) for index in range(1, first + 1)]
    assert values == [index / first for index in range(1, first)] + [1.0]


@given(kind=st.sampled_from([Linear, Exponential, Step, Cosine]), warmup=st.integers(2, 20), length=st.integers(1, 50))
def test_a_schedule_after_warm_up_is_the_schedule_of_a_shorter_run(
    kind: type[Schedule], warmup: int, length: int
) -> None:
    assert curve(kind(warmup), warmup - 1 + length)[warmup - 1 :] == curve(kind(), length)


@given(end=ends, num_rounds=st.integers(2, 300))
def test_linear_goes_in_equal_steps_and_ends_where_it_says(end: float, num_rounds: int) -> None:
    values = curve(Linear(end=end), num_rounds)
    assert values[-1] == pytest.approx(end, abs=1e-12)
    step = (end - 1) / (num_rounds - 1)
    assert all(b - a == pytest.approx(step, abs=1e-9) for a, b in pairwise(values))


@given(end=ends, num_rounds=st.integers(2, 300))
def test_cosine_is_monotone_and_ends_where_it_says(end: float, num_rounds: int) -> None:
    values = curve(Cosine(end=end), num_rounds)
    assert values[-1] == pytest.approx(end, abs=1e-12)
    assert values in (sorted(values), sorted(values, reverse=True))


def test_cosine_is_the_papers_formula() -> None:
    # Loshchilov & Hutter: η_min + (η_max − η_min)(1 + cos(π·T_cur/T_i))/2, here with T_i = 4 over 5 rounds.
    expected = [0.2 + 0.4 * (1 + math.cos(math.pi * place / 4)) for place in range(5)]
    assert curve(Cosine(end=0.2), 5) == pytest.approx(expected)


@given(
    schedule=st.one_of(st.builds(Step, warmups, st.integers(1, 9), factors), st.builds(Exponential, warmups, factors))
)
def test_powers_are_monotone_after_warm_up(schedule: Step | Exponential) -> None:
    values = curve(schedule, 80)[max(schedule.warmup, 1) - 1 :]
    assert values == sorted(values, reverse=schedule.factor_each < 1)


def test_step_and_exponential_are_powers() -> None:
    assert curve(Step(every=2, factor_each=0.5), 5) == [1, 1, 0.5, 0.5, 0.25]
    assert curve(Exponential(factor_each=2.0), 4) == [1, 2, 4, 8]
    assert Exponential(factor_each=2.0).factor(10**6, 10**6) == LARGEST
    assert Exponential(factor_each=0.5).factor(10**6, 10**6) == 0


@given(
    cosine=st.builds(Cosine, warmups, st.floats(0, 0.5), st.integers(0, 20), st.floats(1, 10)), n=st.integers(1, 300)
)
def test_the_factor_returns_to_1_at_restarts_and_only_there(cosine: Cosine, n: int) -> None:
    first = max(cosine.warmup, 1)
    found = restarts(cosine, n)
    assert len(found) <= cosine.restarts
    assert all(first < index <= n for index in found)
    values = curve(cosine, n)
    assert [index for index in range(first, n + 1) if values[index - 1] == 1.0] == [first, *found][: n - first + 1]
    # Each cycle falls to its end; one of a single round has no way to go.
    for begin, after in pairwise([first, *found, n + 1] if first <= n else []):
        cycle = values[begin - 1 : after - 1]
        assert cycle == sorted(cycle, reverse=True)
        assert len(cycle) == 1 or cycle[-1] == pytest.approx(cosine.end, abs=1e-12)


def test_cycles_are_of_equal_length_or_grow() -> None:
    assert restarts(Cosine(restarts=3), 40) == [11, 21, 31]
    assert restarts(Cosine(restarts=3, growth=2.0), 30) == [3, 7, 15]
    assert restarts(Cosine(warmup=11, restarts=1), 30) == [21]
    # More cycles than rounds: those too short for a round are left out.
    assert restarts(Cosine(restarts=100), 3) == [2, 3]


@pytest.mark.parametrize("schedule", [Constant(), Linear(), Step(), Exponential(), Cosine()])
def test_others_never_restart(schedule: Schedule) -> None:
    assert restarts(schedule, 50) == []


def test_after_the_last_round_an_end_stays_and_nothing_restarts() -> None:
    for schedule in (Linear(end=0.25), Cosine(end=0.25, restarts=4)):
        assert [schedule.factor(index, 20) for index in (20, 21, 500)] == pytest.approx([0.25] * 3)
        assert not any(schedule.restarts_at(index, 20) for index in range(21, 60))


def test_warm_up_may_be_longer_than_the_run() -> None:
    assert curve(Cosine(warmup=8, restarts=2), 4) == [0.125, 0.25, 0.375, 0.5]
    assert restarts(Cosine(warmup=8, restarts=2), 4) == []


@pytest.mark.parametrize(("index", "rounds", "wrong"), [(0, 5, "round_index is 0"), (1, 0, "num_rounds is 0")])
def test_rounds_count_from_1(index: int, rounds: int, wrong: str) -> None:
    for ask in (Linear().factor, Linear().restarts_at):
        with pytest.raises(ConfigError, match=f"{wrong}; allowed: integers from 1"):
            ask(index, rounds)
