from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from pydantic import ValidationError

from dashboard.ingest import (
    Beat,
    CreateRun,
    DeleteRounds,
    Event,
    FinishRun,
    IngestBatch,
    RecordRound,
    SetCheckpoint,
    SetStopReason,
    StartRun,
    apply,
)
from dashboard.store import ClientResult, RoundResult, RunNotFound, RunStart, RunStore

RUN = "20261129-175312-aaaa"
AT = datetime(2026, 11, 29, 17, 53, 12, tzinfo=UTC)


@pytest.fixture
def events(start: RunStart, result: RoundResult, client: ClientResult) -> list[Event]:
    def ended(index: int, accuracy: float) -> RecordRound:
        changed = result.model_copy(update={"round_index": index, "accuracy": accuracy, "loss": math.nan})
        return RecordRound(run_id=RUN, result=changed, clients=(client.model_copy(update={"vnmse": math.inf}),))

    return [
        CreateRun(run_id=RUN, start=start),
        StartRun(run_id=RUN, at=AT),
        ended(1, 0.1),
        SetCheckpoint(run_id=RUN, path="/there/round-1"),
        ended(2, 0.2),
        FinishRun(run_id=RUN, status="failed", error="power", at=AT + timedelta(minutes=1)),
        DeleteRounds(run_id=RUN, after=1),
        StartRun(run_id=RUN, at=AT + timedelta(minutes=2), flower_run_id="8", num_rounds=5, config={"resumed": 1}),
        Beat(run_id=RUN),
        ended(2, 0.3),
        ended(3, 0.4),
        SetStopReason(run_id=RUN, reason="patience"),
        FinishRun(run_id=RUN, status="completed", at=AT + timedelta(minutes=3)),
    ]


def sent(events: list[Event]) -> IngestBatch:
    return IngestBatch.model_validate_json(IngestBatch(events=tuple(events)).model_dump_json())


def test_a_run_arrives_whole(store: RunStore, events: list[Event], start: RunStart) -> None:
    reply = apply(store, sent(events))
    assert (reply.applied, reply.refused, reply.stop_requested) == (13, (), ())
    run = store.find_run(RUN)
    assert (run.name, run.seed, run.created_at) == (start.name, start.seed, start.created_at)
    assert (run.status, run.error, run.stop_reason) == ("completed", None, "patience")
    assert (run.started_at, run.finished_at) == (AT, AT + timedelta(minutes=3))
    assert (run.flower_run_id, run.num_rounds, run.config) == ("8", 5, {"resumed": 1})
    assert run.checkpoint_path == "/there/round-1"
    assert [item.accuracy for item in run.rounds] == [0.1, 0.3, 0.4]
    assert math.isnan(run.rounds[0].loss or 0)
    assert run.rounds[0].client_results[0].vnmse == math.inf


@pytest.mark.parametrize("cut", [1, 3, 6, 8, 12])
def test_what_comes_again_from_any_point_changes_nothing(store: RunStore, events: list[Event], cut: int) -> None:
    apply(store, sent(events))
    before = store.find_run(RUN)
    apply(store, sent(events[cut:]))
    apply(store, sent(events))
    now = store.find_run(RUN)
    assert (
        now.model_copy(update={"heartbeat_at": None}).model_dump_json()
        == before.model_copy(update={"heartbeat_at": None}).model_dump_json()
    )


def test_the_same_round_twice_is_one_round(store: RunStore, events: list[Event]) -> None:
    apply(store, sent([*events[:3], events[2], events[2]]))
    assert [item.round_index for item in store.rounds_after(RUN)] == [1]


def test_a_start_that_is_told_twice_does_not_undo_a_stop(store: RunStore, events: list[Event]) -> None:
    apply(store, sent(events[:8]))
    store.request_stop(RUN)
    assert apply(store, sent(events[7:10])).stop_requested == (RUN,)
    # A start at another time is another start.
    again = StartRun(run_id=RUN, at=AT + timedelta(minutes=9))
    assert apply(store, sent([again])).stop_requested == ()


def test_an_id_that_is_taken_is_refused_by_name(store: RunStore, events: list[Event], start: RunStart) -> None:
    apply(store, sent(events))
    other = start.model_copy(update={"created_at": AT})
    reply = apply(store, sent([CreateRun(run_id=RUN, start=other)]))
    assert reply.applied == 0
    assert reply.refused[0].reason.startswith(f"RunConflict: run {RUN} is another one here")


def test_what_is_refused_holds_nothing_up(store: RunStore, events: list[Event]) -> None:
    stranger = Beat(run_id="nobody")
    reply = apply(store, sent([events[0], stranger, events[1], events[2]]))
    assert reply.applied == 3
    assert [(item.index, item.reason.split(":")[0]) for item in reply.refused] == [(1, "RunNotFound")]
    assert len(store.rounds_after(RUN)) == 1


def test_a_renamed_run_takes_its_events(store: RunStore, events: list[Event]) -> None:
    from dashboard.changes import rename

    apply(store, sent(events[:3]))
    with store.writing() as session:
        rename(session, RUN, "better")
    assert apply(store, sent(events)).refused == ()
    assert store.find_run(RUN).name == "better"


@pytest.mark.parametrize(
    "bad",
    [
        '{"events": [{"kind": "explode", "run_id": "r"}]}',
        '{"events": [{"kind": "beat", "run_id": "../../etc"}]}',
        '{"events": [{"kind": "beat", "run_id": ""}]}',
        '{"events": [{"kind": "beat", "run_id": "r", "more": 1}]}',
        '{"events": [{"kind": "start-run", "run_id": "r", "at": "2026-11-29T17:53:12"}]}',
        '{"events": [' + ",".join(['{"kind": "beat", "run_id": "r"}'] * 1001) + "]}",
        "[]",
    ],
)
def test_what_is_no_event_is_refused(bad: str) -> None:
    with pytest.raises(ValidationError):
        IngestBatch.model_validate_json(bad)


def test_a_database_that_fails_is_not_taken_for_a_refusal(store: RunStore, events: list[Event]) -> None:
    from sqlalchemy.exc import SQLAlchemyError

    with store.writing() as session:
        session.connection().exec_driver_sql("ALTER TABLE client_rounds RENAME TO gone")
    try:
        with pytest.raises(SQLAlchemyError):
            apply(store, sent(events))
    finally:
        with store.writing() as session:
            session.connection().exec_driver_sql("ALTER TABLE gone RENAME TO client_rounds")


def test_adding_a_run_under_a_given_id(store: RunStore, start: RunStart) -> None:
    assert store.add_run(RUN, start)
    assert not store.add_run(RUN, start)
    with pytest.raises(RunNotFound):
        store.beat("nobody")
