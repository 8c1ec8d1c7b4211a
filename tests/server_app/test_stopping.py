from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_app.stopping import Stopper

Result = tuple[float | None, float | None, int]


def feed(stopper: Stopper, losses: list[float | None]) -> list[str | None]:
    return [stopper.update(0.5, loss, 100) for loss in losses]


def test_nothing_stops_a_run_by_default() -> None:
    stopper = Stopper()
    assert feed(stopper, [1.0, 2.0, math.nan, None, 5.0] * 50) == [None] * 250
    assert stopper.update(1.0, 0.0, 10**15) is None


def test_a_target_accuracy() -> None:
    stopper = Stopper(target_accuracy=0.8)
    assert stopper.update(0.7999, 1.0, 0) is None
    assert stopper.update(None, 1.0, 0) is None
    assert stopper.update(math.nan, 1.0, 0) is None
    assert stopper.update(0.8, 1.0, 0) == "accuracy 0.8000 has reached the target of 0.8"


def test_an_uplink_limit_in_millions_of_bytes() -> None:
    stopper = Stopper(max_uplink_mb=2.5)
    assert stopper.update(None, None, 2_499_999) is None
    assert stopper.update(None, None, 2_500_000) == "2.500 MB of uplink have reached the limit of 2.5 MB"


def test_patience_counts_rounds_without_a_lower_loss() -> None:
    reasons = feed(Stopper(patience=2), [3.0, 2.0, 2.0, 1.5, 1.6, 1.5])
    assert reasons == [None, None, None, None, None, "the loss has not fallen for 2 rounds (the lowest is 1.5)"]


def test_a_small_fall_is_none() -> None:
    assert feed(Stopper(patience=2, min_improvement=0.1), [1.0, 0.95, 0.91])[-1] is not None
    # Small steps that add up count, since each is compared with the lowest that counted.
    assert feed(Stopper(patience=2, min_improvement=0.1), [1.0, 0.95, 0.89, 0.88])[-1] is None


def test_nan_is_no_improvement_and_no_evaluation_is_nothing() -> None:
    assert feed(Stopper(patience=2), [1.0, math.nan, math.inf])[-1] is not None
    assert feed(Stopper(patience=2), [1.0, None, None, None])[-1] is None
    assert feed(Stopper(patience=2), [1.0, 1.1, None, 1.1])[-1] is not None
    assert feed(Stopper(patience=2), [math.nan, math.nan])[-1] == (
        "the loss has not fallen for 2 rounds (none was finite)"
    )
    assert feed(Stopper(patience=2), [math.nan, 5.0, -math.inf])[-1] is None


numbers = st.none() | st.floats(0, 1) | st.sampled_from([math.nan, math.inf])


@given(st.lists(st.tuples(numbers, numbers, st.integers(0, 10**7)), max_size=12))
def test_a_resumed_run_decides_alike(results: list[Result]) -> None:
    def fresh() -> Stopper:
        return Stopper(target_accuracy=0.9, max_uplink_mb=9, patience=2, min_improvement=0.05)

    whole = fresh()
    expected = [whole.update(*result) for result in results]
    for cut in range(len(results) + 1):
        first, second = fresh(), fresh()
        decisions = [first.update(*result) for result in results[:cut]]
        second.restore(json.loads(json.dumps(first.state(), allow_nan=False)))
        decisions += [second.update(*result) for result in results[cut:]]
        assert decisions == expected


@pytest.mark.parametrize("patience", [1, 3])
def test_restoring_forgets_what_was_before(patience: int) -> None:
    stopper = Stopper(patience=patience)
    feed(stopper, [0.1, 0.2, 0.3, 0.4])
    stopper.restore(Stopper().state())
    assert feed(stopper, [5.0]) == [None]
