from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_app.guard import Guard

Round = tuple[float | None, float | None]


def seasoned(guard: Guard, norms: list[float]) -> Guard:
    for norm in norms:
        assert guard.check(1.0, norm) is None
    return guard


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_divergence_even_when_all_is_off(bad: float) -> None:
    guard = Guard(loss_factor=0, norm_factor=0)
    assert guard.check(bad, 1.0) == f"the loss is {bad}"
    assert guard.check(1.0, bad) == f"the update's norm is {bad}"
    assert guard.check(bad, bad) == f"the loss is {bad}"


def test_a_loss_far_above_the_untrained_one() -> None:
    guard = Guard(loss_factor=2.0)
    assert guard.check(1e9, 1.0) is None
    guard.set_initial_loss(4.0)
    assert guard.check(8.0, 1.0) is None
    assert guard.check(8.1, 1.0) == "the loss is 8.1, above 2 times the untrained 4"
    assert guard.check(None, 1.0) is None


@pytest.mark.parametrize("initial", [math.nan, math.inf, 0.0, -2.0])
def test_some_losses_are_nothing_to_compare_with(initial: float) -> None:
    guard = Guard()
    guard.set_initial_loss(5.0)
    guard.set_initial_loss(initial)
    assert guard.check(1e9, 1.0) is None


def test_an_update_far_longer_than_usual() -> None:
    guard = seasoned(Guard(norm_factor=20), [1.0, 30.0])
    assert guard.check(1.0, 2.0) is None
    assert guard.check(1.0, 40.0) is None
    # Now 1, 30, 2 and 40 are known: their median is 16.
    assert guard.check(1.0, 321.0) == "the update's norm is 321, above 20 times the usual 16"
    assert guard.check(1.0, None) is None
    assert guard.check(1.0, 320.0) is None


def test_three_rounds_must_be_known() -> None:
    assert seasoned(Guard(), [1.0, 1.0]).check(1.0, 1e6) is None
    assert seasoned(Guard(), [1.0, 1.0, 1.0]).check(1.0, 1e6) is not None
    assert seasoned(Guard(), [0.0, 0.0, 0.0]).check(1.0, 1e6) is None


def test_only_the_last_twenty_good_rounds_count() -> None:
    guard = seasoned(Guard(), [100.0] * 20)
    assert guard.check(1.0, 1999.0) is None
    seasoned(guard, [1.0] * 11)
    # Of the last 20 now 11 are 1.
    assert guard.check(1.0, 21.0) is not None
    assert len(guard.state()["norms"]) == 20


def test_bad_rounds_are_not_remembered() -> None:
    guard = seasoned(Guard(), [1.0, 1.0, 1.0])
    for _ in range(10):
        assert guard.check(1.0, 50.0) is not None
        assert guard.check(math.nan, 1.5) is not None
    assert guard.state()["norms"] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("loss_factor", "norm_factor", "caught"), [(0, 20, 1), (2, 0, 1), (0, 0, 0), (2, 20, 2)])
def test_a_factor_of_zero_is_off(loss_factor: float, norm_factor: float, caught: int) -> None:
    guard = seasoned(Guard(loss_factor, norm_factor), [1.0, 1.0, 1.0])
    guard.set_initial_loss(1.0)
    assert (guard.check(3.0, 1.0) is not None) + (guard.check(1.0, 21.0) is not None) == caught


number = st.none() | st.sampled_from([0.0, 1.0, 2.0, 30.0, 900.0, math.nan, math.inf])


@given(st.lists(st.tuples(number, number), max_size=14))
def test_a_resumed_run_decides_alike(rounds: list[Round]) -> None:
    def fresh() -> Guard:
        return Guard(loss_factor=2, norm_factor=10)

    whole = fresh()
    whole.set_initial_loss(10.0)
    expected = [whole.check(*entry) for entry in rounds]
    for cut in range(len(rounds) + 1):
        first, second = fresh(), fresh()
        first.set_initial_loss(10.0)
        decisions = [first.check(*entry) for entry in rounds[:cut]]
        second.restore(json.loads(json.dumps(first.state(), allow_nan=False)))
        decisions += [second.check(*entry) for entry in rounds[cut:]]
        assert decisions == expected


def test_a_state_is_a_copy() -> None:
    guard = seasoned(Guard(), [1.0, 1.0, 1.0])
    state = guard.state()
    seasoned(guard, [2.0])
    assert state == {"initial_loss": None, "norms": [1.0, 1.0, 1.0]}


def test_a_model_that_learned_nothing_is_told_from_one_that_did() -> None:
    guard = Guard()
    assert guard.has_not_learned(9.0) is None
    guard.set_initial_loss(4.0)
    assert guard.has_not_learned(4.01) == "the model is no better than untrained (loss 4.01, untrained 4)"
    assert guard.has_not_learned(3.9) is None
    assert guard.has_not_learned(None) is None
