from __future__ import annotations

import math
from typing import Any

import pytest

from dashboard.groups import config_diff, flat_config, group_curves, group_labels
from dashboard.schemas_compare import Curve, GroupCurve
from dashboard.store import RunStart, RunStore


def curve(run_id: str, xs: list[float], ys: list[float]) -> Curve:
    return Curve(
        run_id=run_id, name="n", compressor="c", round_indices=tuple(range(len(xs))), xs=tuple(xs), ys=tuple(ys)
    )


def grouped(*curves: Curve, **more: Any) -> GroupCurve:
    (found,) = group_curves(curves, {item.run_id: "g" for item in curves}, **more)
    return found


def test_mean_and_sample_standard_deviation() -> None:
    found = grouped(curve("a", [1, 2], [0.0, 1.0]), curve("b", [1, 2], [1.0, 3.0]), curve("c", [1, 2], [2.0, 5.0]))
    assert list(found.xs) == [1, 2]
    assert list(found.mean) == [1.0, 3.0]
    assert list(found.std) == [1.0, 2.0]
    assert list(found.count) == [3, 3]
    assert found.run_ids == ("a", "b", "c")


def test_curves_count_from_their_first_to_their_last_point_and_are_interpolated() -> None:
    found = grouped(curve("a", [0, 2, 4], [0.0, 2.0, 4.0]), curve("b", [1, 3], [3.0, 5.0]))
    assert list(found.xs) == [0, 1, 2, 3, 4]
    assert list(found.mean) == [0.0, 2.0, 3.0, 4.0, 4.0]
    assert list(found.count) == [1, 2, 2, 2, 1]
    assert found.std[0] is None
    assert found.std[2] == pytest.approx(math.sqrt(2))
    assert found.std[4] is None


def test_nan_is_no_value() -> None:
    found = grouped(curve("a", [0, 1, 2], [0.0, math.nan, 2.0]), curve("b", [0, 1], [math.nan, math.inf]))
    assert list(found.xs) == [0, 2]
    assert list(found.mean) == [0.0, 2.0]
    assert not grouped(curve("a", [1], [math.nan])).xs
    assert not grouped(curve("a", [], [])).mean


def test_a_group_has_at_most_so_many_points_with_both_ends() -> None:
    found = grouped(curve("a", [float(x) for x in range(1000)], [float(x) for x in range(1000)]), max_points=50)
    assert len(found.xs) == 50
    assert (found.xs[0], found.xs[-1]) == (0.0, 999.0)
    assert found.mean == found.xs


def test_groups_come_in_the_order_of_their_first_curve() -> None:
    found = group_curves([curve("a", [1], [1.0]), curve("b", [1], [2.0]), curve("c", [1], [3.0])], {"a": "y", "c": "y"})
    assert [(item.label, item.run_ids) for item in found] == [("y", ("a", "c")), ("(none)", ("b",))]


def test_labels_are_values_of_a_setting_or_a_column(store: RunStore, start: RunStart) -> None:
    configs: list[dict[str, Any]] = [{"lr": 0.1, "on": True, "text": "x", "in": {"side": 1}}, {"lr": 0.2, "text": None}]
    one, two = (store.create_run(start.model_copy(update={"config": config})) for config in configs)

    def labels(key: str) -> list[str]:
        with store.reading() as session:
            found = group_labels(session, [one, two, "nobody"], key)
        assert set(found) == {one, two}
        return [found[one], found[two]]

    assert labels("lr") == ["0.1", "0.2"]
    assert labels("on") == ["true", "(none)"]
    assert labels("text") == ["x", "(none)"]
    assert labels("in.side") == ["1", "(none)"]
    assert labels("compressor") == ["eden:bits=2"] * 2
    assert labels("seed") == [str(2**64 - 1)] * 2
    assert labels("environment") == ["(none)"] * 2


def test_only_settings_that_differ_are_named(store: RunStore, start: RunStart) -> None:
    configs: list[dict[str, Any]] = [
        {"same": 1, "lr": 0.1, "deep": {"a": 1, "b": [1]}, "number": 1},
        {"same": 1, "lr": 0.2, "deep": {"a": 1, "b": [2]}, "number": True, "more": None},
    ]
    one, two = (store.create_run(start.model_copy(update={"config": config})) for config in configs)
    with store.reading() as session:
        found = {item.key: item.values for item in config_diff(session, [one, two])}
        assert config_diff(session, [one]) == []
        assert config_diff(session, []) == []
    assert found == {
        "deep.b": {one: [1], two: [2]},
        "lr": {one: 0.1, two: 0.2},
        "more": {two: None},
        "number": {one: 1, two: True},
    }


def test_nested_settings_are_written_with_dots() -> None:
    assert flat_config({"a": {"b": {"c": 1}}, "d": [1]}) == {"a.b.c": 1, "d": [1]}


def test_a_loss_that_ran_away_is_drawn_without_a_word() -> None:
    found = grouped(curve("a", [1], [1e300]), curve("b", [1], [-1e300]))
    assert list(found.mean) == [0.0]
    assert list(found.std) == [math.inf]
