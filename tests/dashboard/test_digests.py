"""A digest says what the rows say, and is gone as soon as they change."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from dashboard.clients import client_summary
from dashboard.compare import curves
from dashboard.digests import unsealed
from dashboard.models import RunDigest
from dashboard.run_list import list_runs
from dashboard.schemas_compare import RunFilter, XAxis, YAxis
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore

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


def sealed(store: RunStore) -> list[str]:
    with store.reading() as session:
        return list(session.scalars(select(RunDigest.run_id)))


def everything(store: RunStore, run_id: str) -> str:
    """Return all that pages ask about a run, as text, where NaN is like NaN."""
    with store.reading() as session:
        lines = [curves(session, [run_id], x, y) for x in get_args(XAxis) for y in get_args(YAxis)]
        listed = [list_runs(session, RunFilter(min_bits=low)).runs for low in (None, 0.0, 3.0)]
        return repr((lines, listed, client_summary(session, [run_id])))


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
        assert sealed(store) == [run_id]
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
    assert sealed(store) == [run_id]
    change(store, run_id, result.model_copy(update={"round_index": 7}))
    assert sealed(store) == []


def test_a_running_run_has_none(store: RunStore, start: RunStart, result: RoundResult) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    store.record_round(run_id, result, [])
    assert sealed(store) == []
    assert store.seal_ended() == 0


def test_runs_of_earlier_releases_get_theirs_when_asked(store: RunStore, start: RunStart, result: RoundResult) -> None:
    ended, running = store.create_run(start), store.create_run(start)
    store.record_round(ended, result, [])
    store.finish_run(ended, "completed")
    store.start_run(running)
    with store.writing() as session:
        session.execute(delete(RunDigest))
    with store.reading() as session:
        assert unsealed(session) == [ended]
    before = everything(store, ended)
    assert store.seal_ended() == 1
    assert sealed(store) == [ended]
    assert everything(store, ended) == before


def test_a_deleted_run_leaves_none(store: RunStore, start: RunStart) -> None:
    store.finish_run(store.create_run(start), "failed")
    with store.writing() as session:
        session.connection().exec_driver_sql("DELETE FROM runs")
    assert sealed(store) == []
