"""A digest says what the rows say, and is gone as soon as they change."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from dashboard.clients import client_summary
from dashboard.compare import curves
from dashboard.digests import missing
from dashboard.models import Run, RunDigest
from dashboard.queries import ORPHANED_AFTER
from dashboard.run_list import list_runs
from dashboard.schemas_compare import RunFilter, XAxis, YAxis
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from tests.support.postgres import SLOW_ON_POSTGRESQL

FLOATS = st.none() | st.floats(-10, 10) | st.sampled_from([math.nan, math.inf, -math.inf])
ROUNDS = st.lists(
    st.fixed_dictionaries(
        {
            "accuracy": FLOATS,
            "loss": FLOATS,
            "nmse": FLOATS,
            "bits_per_coordinate": st.floats(0, 10) | st.just(math.nan),
            "downlink_bits_per_coordinate": FLOATS,
            "clients": st.integers(0, 3),
            "uplink_payload_bytes": st.integers(0, 2**40),
            "status": st.sampled_from(["ok", "partial", "skipped", "rolled-back"]),
        }
    ),
    max_size=6,
)
CLIENTS = st.lists(
    st.fixed_dictionaries(
        {
            "vnmse": FLOATS,
            "bits_asked": FLOATS,
            "train_seconds": st.floats(0, 10) | st.just(math.inf),
            "reject_reason": st.none() | st.sampled_from(["NonFinite", "late"]),
            "device": st.sampled_from(["cpu", "cuda"]),
        }
    ),
    max_size=3,
)


def digested(store: RunStore) -> list[str]:
    with store.reading() as session:
        return list(session.scalars(select(RunDigest.run_id)))


def everything(store: RunStore, run_id: str) -> str:
    """Return all that pages ask about a run, as text, where NaN is like NaN."""
    with store.reading() as session:
        lines = [curves(session, [run_id], x, y) for x in get_args(XAxis) for y in get_args(YAxis)]
        listed = [list_runs(session, RunFilter(min_bits=low)).runs for low in (None, 0.0, 3.0)]
        return repr((lines, listed, client_summary(session, [run_id])))


@pytest.mark.parametrize("url", SLOW_ON_POSTGRESQL, indirect=True)
def test_a_digest_says_what_the_rows_say(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    @given(rounds=ROUNDS, clients=CLIENTS)
    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    def check(rounds: list[dict[str, Any]], clients: list[dict[str, Any]]) -> None:
        with store.writing() as session:
            session.connection().exec_driver_sql("DELETE FROM runs")
        run_id = store.create_run(start)
        rows = [
            ClientResult(**(client.model_dump(exclude={"outcome"}) | values | {"client": str(number)}))
            for number, values in enumerate(clients)
        ]
        for number, values in enumerate(rounds):
            store.record_round(run_id, result.model_copy(update={"round_index": number, **values}), rows)
        store.finish_run(run_id, "completed")
        assert digested(store) == [run_id]
        from_digest = everything(store, run_id)
        with store.writing() as session:
            session.execute(delete(RunDigest))
        assert everything(store, run_id) == from_digest

    check()


@pytest.mark.parametrize(
    "change",
    [
        lambda store, run_id, _: store.start_run(run_id),
        lambda store, run_id, result: store.record_round(run_id, result, []),
        lambda store, run_id, _: store.delete_rounds_after(run_id, 0),
    ],
)
def test_what_changes_the_rounds_takes_the_digest_away(
    store: RunStore, start: RunStart, result: RoundResult, change: Callable[[RunStore, str, RoundResult], object]
) -> None:
    run_id = store.create_run(start)
    store.record_round(run_id, result, [])
    store.finish_run(run_id, "failed")
    assert digested(store) == [run_id]
    change(store, run_id, result.model_copy(update={"round_index": 7}))
    assert digested(store) == []


def test_a_running_run_has_none(store: RunStore, start: RunStart, result: RoundResult) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    store.record_round(run_id, result, [])
    assert digested(store) == []
    assert store.digest_ended() == 0


def test_runs_of_earlier_releases_get_theirs_when_asked(store: RunStore, start: RunStart, result: RoundResult) -> None:
    ended, running = store.create_run(start), store.create_run(start)
    store.record_round(ended, result, [])
    store.finish_run(ended, "completed")
    store.start_run(running)
    with store.writing() as session:
        session.execute(delete(RunDigest))
    with store.reading() as session:
        assert missing(session) == [ended]
    before = everything(store, ended)
    assert store.digest_ended() == 1
    assert digested(store) == [ended]
    assert everything(store, ended) == before


def test_an_orphaned_run_gets_one_until_it_goes_on(store: RunStore, start: RunStart, result: RoundResult) -> None:
    run_id, alive = store.create_run(start), store.create_run(start)
    for each in (run_id, alive):
        store.start_run(each)
        store.record_round(each, result, [])
    silent_since(store, run_id, datetime.now(UTC) - ORPHANED_AFTER - timedelta(seconds=1))
    silent_since(store, alive, datetime.now(UTC) - ORPHANED_AFTER + timedelta(seconds=60))
    before = everything(store, run_id)
    assert store.digest_ended() == 1
    assert digested(store) == [run_id]
    assert everything(store, run_id) == before
    store.record_round(run_id, result.model_copy(update={"round_index": 2}), [])
    assert digested(store) == []
    assert store.summary(run_id).rounds_done == 2


def test_making_digests_ends_between_two_runs(store: RunStore, start: RunStart) -> None:
    made = [store.create_run(start) for _ in range(3)]
    for run_id in made:
        store.finish_run(run_id, "completed")
    with store.writing() as session:
        session.execute(delete(RunDigest))
    assert store.digest_ended(until=lambda: bool(digested(store))) == 1
    assert digested(store) == [min(made)]
    assert store.digest_ended() == 2


def silent_since(store: RunStore, run_id: str, moment: datetime) -> None:
    with store.writing() as session:
        session.get_one(Run, run_id).heartbeat_at = moment


def test_a_deleted_run_leaves_none(store: RunStore, start: RunStart) -> None:
    store.finish_run(store.create_run(start), "failed")
    with store.writing() as session:
        session.connection().exec_driver_sql("DELETE FROM runs")
    assert digested(store) == []
