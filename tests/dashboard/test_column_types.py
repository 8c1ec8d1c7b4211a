from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from sqlalchemy import Column, Engine, MetaData, Table, create_engine, func, insert, make_url, select, text

from dashboard.column_types import ExactFloat, UtcDateTime
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore

TABLE = Table("t", MetaData(), Column("at", UtcDateTime), Column("x", ExactFloat))
POSTGRESQL = make_url("postgresql://").get_dialect()()


@pytest.fixture
def engine() -> Iterator[Engine]:
    engine = create_engine("sqlite://")
    TABLE.create(engine)
    yield engine
    engine.dispose()


def round_trip_float(engine: Engine, value: float | None) -> float | None:
    with engine.begin() as connection:
        connection.execute(insert(TABLE), [{"x": value}])
        stored: float | None = connection.scalar(select(TABLE.c.x))
    return stored


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.1, 5e-324, 1.7976931348623157e308, 2.0, None])
def test_floats_come_back_as_they_were(engine: Engine, value: float | None) -> None:
    stored = round_trip_float(engine, value)
    assert stored == value
    assert type(stored) is type(value)


def test_nan_comes_back_as_nan_and_not_as_null(engine: Engine) -> None:
    stored = round_trip_float(engine, math.nan)
    assert stored is not None
    assert math.isnan(stored)


def test_a_query_can_leave_nan_out(engine: Engine) -> None:
    not_a_number = math.nan
    with engine.begin() as connection:
        connection.execute(insert(TABLE), [{"x": 1.0}, {"x": math.nan}, {"x": 3.0}, {"x": None}])
        query = select(func.max(TABLE.c.x), func.sum(TABLE.c.x)).where(TABLE.c.x != not_a_number)
        assert connection.execute(query).one() == (3.0, 4.0)


def test_floats_are_plain_double_precision_elsewhere() -> None:
    assert ExactFloat().compile(POSTGRESQL) == "DOUBLE PRECISION"
    bound = ExactFloat().process_bind_param(math.nan, POSTGRESQL)
    assert isinstance(bound, float)
    assert math.isnan(bound)


def test_naive_datetime_is_refused_with_a_value_error(engine: Engine) -> None:
    with engine.begin() as connection, pytest.raises(ValueError, match=r"2026-11-29T17:53:12 has no time zone"):
        connection.execute(insert(TABLE), [{"at": datetime(2026, 11, 29, 17, 53, 12)}])


def test_datetimes_are_stored_in_utc_and_come_back_aware(engine: Engine) -> None:
    here = datetime(2026, 11, 29, 1, 30, 0, 123456, tzinfo=timezone(timedelta(hours=2)))
    with engine.begin() as connection:
        connection.execute(insert(TABLE), [{"at": here}])
        assert connection.scalar(text("SELECT at FROM t")) == "2026-11-28 23:30:00.123456"
        stored = connection.scalar(select(TABLE.c.at))
    assert stored == here
    assert stored.tzinfo is UTC


def test_a_database_that_keeps_zones_also_gives_utc() -> None:
    here = datetime(2026, 11, 29, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    stored = UtcDateTime().process_result_value(here, POSTGRESQL)
    assert stored == here
    assert stored is not None
    assert stored.tzinfo is UTC


@pytest.mark.parametrize("text_", ["a\0b", "\0", "ü\0"])
def test_a_null_character_costs_no_round(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult, text_: str
) -> None:
    run_id = store.create_run(start)
    store.record_round(run_id, result, [client.model_copy(update={"reject_reason": text_, "client": text_})])
    store.finish_run(run_id, "failed", text_)
    assert len(store.rounds_after(run_id)[0].client_results) == 1
