from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from dashboard import queries
from dashboard.compare import curves, pareto
from dashboard.models import Run
from dashboard.schemas_compare import Cost, Curve, ParetoPoint, Value, XAxis, YAxis
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore

Play = Callable[..., str]


@pytest.fixture
def play(store: RunStore, start: RunStart, result: RoundResult) -> Play:
    def played(rounds: list[dict[str, Any]], clients: list[ClientResult] | None = None, **changes: Any) -> str:
        run_id = store.create_run(start.model_copy(update=changes))
        for number, values in enumerate(rounds):
            store.record_round(run_id, result.model_copy(update={"round_index": number, **values}), clients or [])
        return run_id

    return played


def one(store: RunStore, run_id: str, x: XAxis, y: YAxis, **more: Any) -> Curve:
    with store.reading() as session:
        (curve,) = curves(session, [run_id], x, y, **more)
    return curve


def points(store: RunStore, ids: list[str], cost: Cost, value: Value, **more: Any) -> list[ParetoPoint]:
    with store.reading() as session:
        runs = session.scalars(select(Run).where(Run.id.in_(ids))).all()
        return pareto(queries.summaries(session, runs), cost, value, **more)


def test_each_x_axis(store: RunStore, play: Play) -> None:
    sizes = {"uplink_payload_bytes": 2_000_000, "downlink_payload_bytes": 1_000_000, "seconds": 1.5}
    none = {"uplink_payload_bytes": 0, "downlink_payload_bytes": 0, "seconds": 0.5}
    run_id = play([none, sizes, sizes])
    assert one(store, run_id, "round", "accuracy").xs == (0, 1, 2)
    assert one(store, run_id, "uplink_mb", "accuracy").xs == (0.0, 2.0, 4.0)
    assert one(store, run_id, "total_mb", "accuracy").xs == (0.0, 3.0, 6.0)
    assert one(store, run_id, "seconds", "accuracy").xs == (0.5, 2.0, 3.5)


def test_each_y_axis(store: RunStore, play: Play, client: ClientResult) -> None:
    values = {"accuracy": 0.1, "loss": 0.2, "train_loss": 0.3, "nmse": 0.4, "bits_per_coordinate": 0.5}
    measured = [
        client.model_copy(update={"client": name, "vnmse": vnmse})
        for name, vnmse in (("a", 0.1), ("b", 0.3), ("c", None), ("d", math.nan))
    ]
    run_id = play([values | {"downlink_bits_per_coordinate": 0.6}], measured)
    found = {
        y: one(store, run_id, "round", y).ys
        for y in ("accuracy", "loss", "train_loss", "nmse", "bits", "downlink_bits")
    }
    assert found == {
        "accuracy": (0.1,),
        "loss": (0.2,),
        "train_loss": (0.3,),
        "nmse": (0.4,),
        "bits": (0.5,),
        "downlink_bits": (0.6,),
    }
    assert one(store, run_id, "round", "vnmse").ys == pytest.approx((0.2,))


def test_rounds_without_the_measurement_still_cost(store: RunStore, play: Play) -> None:
    run_id = play(
        [{"accuracy": 0.1}, {"accuracy": None}, {"accuracy": 0.3, "status": "rolled-back"}, {"accuracy": 0.2}]
    )
    curve = one(store, run_id, "seconds", "accuracy")
    assert (curve.round_indices, curve.xs, curve.ys) == ((0, 3), (1.25, 5.0), (0.1, 0.2))
    assert one(store, run_id, "round", "bits").xs == (0, 1, 2, 3)


def test_nan_and_infinity_are_points_and_valid_json(store: RunStore, play: Play) -> None:
    run_id = play([{"loss": math.nan}, {"loss": math.inf}, {"loss": -math.inf, "seconds": math.nan}, {"loss": 1.0}])
    curve = one(store, run_id, "round", "loss")
    assert repr(curve.ys) == "(nan, inf, -inf, 1.0)"
    assert json.loads(curve.model_dump_json())["ys"] == ["NaN", "Infinity", "-Infinity", 1.0]
    assert one(store, run_id, "seconds", "loss").xs[:2] == (1.25, 2.5)


def test_curves_come_in_the_order_asked_and_unknown_runs_are_left_out(store: RunStore, play: Play) -> None:
    first, second = play([{}]), play([{}, {}])
    silent = play([])
    with store.reading() as session:
        found = curves(session, [second, "nobody", silent, first, second], "round", "accuracy")
        assert curves(session, [], "round", "accuracy") == []
    assert [(curve.run_id, len(curve.xs)) for curve in found] == [(second, 2), (silent, 0), (first, 1)]


def test_a_long_run_is_thinned_and_keeps_its_extremes(store: RunStore, play: Play) -> None:
    run_id = play([{"accuracy": 0.9 if number == 33 else number / 1000} for number in range(60)])
    curve = one(store, run_id, "round", "accuracy", max_points=10)
    assert len(curve.xs) == len(curve.ys) == len(curve.round_indices) <= 10
    assert {0, 33, 59} <= set(curve.round_indices)
    assert max(curve.ys) == 0.9


def test_the_frontier_is_what_nothing_beats(store: RunStore, play: Play) -> None:
    def run(bits: float, *accuracies: float) -> str:
        rounds = [{"accuracy": accuracy, "bits_per_coordinate": bits} for accuracy in accuracies]
        return play(rounds, compressor=f"c{bits}")

    ids = [run(1, 0.5, 0.6), run(2, 0.9, 0.7), run(3, 0.65, 0.65), run(4, 0.8, 0.8), run(5, 0.8, 0.8)]
    final = points(store, ids, "bits", "final")
    assert [(point.cost, point.value, point.on_frontier) for point in final] == [
        (1, 0.6, True),
        (2, 0.7, True),
        (3, 0.65, False),
        (4, 0.8, True),
        (5, 0.8, False),
    ]
    best = points(store, ids, "bits", "best")
    assert [point.label for point in best if point.on_frontier] == ["c1", "c2"]


def test_seeds_of_a_setting_are_one_point_with_a_spread(store: RunStore, play: Play) -> None:
    sizes = {"uplink_payload_bytes": 3_000_000, "downlink_payload_bytes": 1_000_000}
    ids = [play([{"accuracy": accuracy, **sizes}]) for accuracy in (0.5, 0.7)]
    (point,) = points(store, ids, "total_mb", "final")
    assert (point.label, point.cost, point.cost_std) == ("eden:bits=2", 4.0, 0.0)
    assert point.value == pytest.approx(0.6)
    assert point.value_std == pytest.approx(0.1 * math.sqrt(2))
    assert set(point.run_ids) == set(ids)
    apart = points(store, ids, "uplink_mb", "final", labels={ids[0]: "one", ids[1]: "two"})
    assert [(item.label, item.cost, item.value_std) for item in apart] == [("two", 3.0, None), ("one", 3.0, None)]


def test_runs_without_accuracy_or_with_nan_have_no_point(store: RunStore, play: Play) -> None:
    ids = [
        play([{"accuracy": None}]),
        play([{"accuracy": math.nan}]),
        play([]),
        play([{"bits_per_coordinate": math.nan}]),
    ]
    assert points(store, ids, "bits", "final") == []
    assert points(store, ids, "bits", "best") == []
