from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.errors import ConfigError
from fedcomp.optim.scaling import Rule, grown, scaled_rate

sizes = st.integers(1, 10**6)


@given(rate=st.floats(1e-6, 10), cohort=sizes, base=sizes)
def test_rates_grow_with_the_cohort_as_the_rule_says(rate: float, cohort: int, base: int) -> None:
    times = cohort / base
    assert scaled_rate(rate, cohort=cohort, base=base, rule="none") == rate
    assert scaled_rate(rate, cohort=cohort, base=base, rule="linear") == pytest.approx(rate * times)
    assert scaled_rate(rate, cohort=cohort, base=base, rule="sqrt") == pytest.approx(rate * math.sqrt(times))


@given(rate=st.floats(1e-6, 10), base=sizes, rule=st.sampled_from(["none", "linear", "sqrt"]))
def test_the_cohort_a_rate_was_tuned_for_keeps_it(rate: float, base: int, rule: Rule) -> None:
    assert scaled_rate(rate, cohort=base, base=base, rule=rule) == pytest.approx(rate)


@given(base=st.integers(1, 10**6), factor=st.floats(0, 1e6), more=st.floats(0, 100))
def test_sizes_are_the_nearest_integers_never_below_1_and_never_shrink(base: int, factor: float, more: float) -> None:
    size = grown(base, factor)
    assert size >= 1
    assert size == 1 or abs(size - base * factor) <= 0.5
    assert grown(base, factor + more) >= size
    assert grown(base, 1.0) == base


def test_halves_go_up() -> None:
    assert [grown(5, factor) for factor in (0.1, 0.3, 0.5, 0.0)] == [1, 2, 3, 1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"rule": "cube"}, "scaling rule is 'cube'; allowed: none, linear, sqrt"),
        ({"cohort": 0}, "cohort is 0; allowed: integers from 1"),
        ({"base": -1}, "base is -1; allowed: integers from 1"),
    ],
)
def test_wrong_settings_are_named(changes: dict[str, Any], why: str) -> None:
    settings: dict[str, Any] = {"cohort": 10, "base": 5, "rule": "none"}
    with pytest.raises(ConfigError, match=why):
        scaled_rate(0.1, **settings | changes)


@pytest.mark.parametrize(
    ("base", "factor", "why"),
    [
        (0, 1.0, "base is 0"),
        (1, -0.5, "factor is -0.5"),
        (1, math.inf, "factor is inf"),
        (1, math.nan, "factor is nan"),
    ],
)
def test_nothing_grows_from_nothing_or_without_end(base: int, factor: float, why: str) -> None:
    with pytest.raises(ConfigError, match=f"{why}; allowed"):
        grown(base, factor)
