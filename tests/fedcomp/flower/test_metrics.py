from __future__ import annotations

import logging

import pytest
from flwr.app import MetricRecord, RecordDict
from flwr.serverapp.strategy.strategy_utils import aggregate_metricrecords
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.errors import InvalidWeight
from fedcomp.flower.messages import MalformedMessage
from fedcomp.flower.metrics import MetricMean, only_metric_record, read_weight

NUMBERS = st.floats(-1e6, 1e6) | st.integers(-1000, 1000)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"n": st.integers(1, 50), "loss": NUMBERS, "curve": st.lists(st.floats(-9, 9), min_size=2, max_size=2)}
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_mean_is_that_of_flower(clients: list[dict[str, int | float | list[int] | list[float]]]) -> None:
    mean = MetricMean("n")
    records = [MetricRecord(client) for client in clients]
    for item in records:
        mean.add(item, weight=read_weight(item, "n"))
    found = mean.result()
    assert found.pop("n") == sum(read_weight(item, "n") for item in records)
    expected = aggregate_metricrecords([RecordDict({"m": item}) for item in records], "n")
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name] == pytest.approx(value, rel=1e-9, abs=1e-9)


def test_a_metric_that_not_all_sent_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    mean = MetricMean("n")
    mean.add({"loss": 1.0, "only": 1.0, "list": [1.0], "mixed": 1.0}, weight=1.0)
    mean.add({"loss": 2.0, "list": [1.0, 2.0], "mixed": [1.0]}, weight=3.0)
    with caplog.at_level(logging.WARNING, "flwr.fedcomp"):
        assert dict(mean.result()) == {"n": 4.0, "loss": 1.75}
    assert "metric 'only' came from 1 of 2 clients in this form, it is left out" in caplog.messages


def test_there_must_be_one_metric_record() -> None:
    with pytest.raises(MalformedMessage, match="holds 0 MetricRecords"):
        only_metric_record(RecordDict())
    with pytest.raises(MalformedMessage, match="holds 2 MetricRecords"):
        only_metric_record(RecordDict({"a": MetricRecord(), "b": MetricRecord()}))


@pytest.mark.parametrize("weight", [-5, float("nan"), float("inf"), 2**60, [1, 2]])
def test_bad_weights_are_refused(weight: float | list[int]) -> None:
    with pytest.raises(InvalidWeight):
        read_weight(MetricRecord({"n": weight}), "n")


def test_a_missing_weight_is_named() -> None:
    with pytest.raises(InvalidWeight, match=r"no metric 'n', the strategy's weighted_by_key; it has \['m'\]"):
        read_weight(MetricRecord({"m": 1}), "n")
    assert read_weight(MetricRecord({"n": 0}), "n") == 0
