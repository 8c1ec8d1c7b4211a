"""Asking a run to stop, and taking one up again."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event

from dashboard.store import (
    BitsSource,
    ClientResult,
    FinalStatus,
    Outcome,
    RoundResult,
    RoundStatus,
    RunEnded,
    RunNotFound,
    RunStart,
    RunStore,
)
from fedcomp.errors import FedcompError


def test_a_run_is_asked_to_stop_once(store: RunStore, start: RunStart) -> None:
    run_id, other = store.create_run(start), store.create_run(start)
    store.start_run(run_id)
    assert not store.stop_requested(run_id)
    asked = store.request_stop(run_id)
    assert asked.stop_requested_at is not None
    assert asked.stop_requested_at.tzinfo is UTC
    assert (asked.id, asked.status, asked.stop_reason) == (run_id, "running", None)
    assert store.request_stop(run_id) == asked == store.summary(run_id)
    assert (store.stop_requested(run_id), store.stop_requested(other)) == (True, False)


@pytest.mark.parametrize("status", get_args(FinalStatus))
def test_a_run_that_has_ended_cannot_be_stopped(store: RunStore, start: RunStart, status: FinalStatus) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    store.finish_run(run_id, status)
    with pytest.raises(RunEnded, match=rf"run {run_id} is {status} already: only a queued or running run") as caught:
        store.request_stop(run_id)
    assert (caught.value.run_id, caught.value.status) == (run_id, status)
    assert isinstance(caught.value, FedcompError)
    assert not store.stop_requested(run_id)


def test_a_run_asked_to_stop_while_it_waits_still_stops(store: RunStore, start: RunStart) -> None:
    run_id = store.create_run(start)
    store.request_stop(run_id)
    store.start_run(run_id)
    assert store.stop_requested(run_id)


@pytest.mark.parametrize("status", [None, *get_args(FinalStatus)])
def test_a_run_taken_up_again_forgets_that_it_was_to_stop(
    store: RunStore, start: RunStart, status: FinalStatus | None
) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    store.request_stop(run_id)
    store.set_stop_reason(run_id, "asked to")
    if status is not None:  # else its process was killed
        store.finish_run(run_id, status)
    assert store.summary(run_id).stop_reason == "asked to"
    store.start_run(run_id)
    run = store.summary(run_id)
    assert (run.status, run.stop_requested_at, run.stop_reason) == ("running", None, None)


def test_a_completed_run_can_get_more_rounds(store: RunStore, start: RunStart) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    store.finish_run(run_id, "completed")
    store.start_run(run_id)
    assert (store.find_run(run_id).num_rounds, store.find_run(run_id).config) == (3, start.config)
    store.start_run(run_id, num_rounds=9, config={"num-server-rounds": 9})
    run = store.find_run(run_id)
    assert (run.status, run.num_rounds, run.config) == ("running", 9, {"num-server-rounds": 9})


def test_rounds_to_be_replayed_are_deleted_with_their_clients(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    run_id, other = store.create_run(start), store.create_run(start)
    for owner in (run_id, other):
        for index in range(5):
            store.record_round(owner, result.model_copy(update={"round_index": index}), [client])
    assert store.delete_rounds_after(run_id, 2) == 2
    assert [item.round_index for item in store.rounds_after(run_id)] == [0, 1, 2]
    assert store.delete_rounds_after(run_id, 2) == 0
    assert len(store.rounds_after(other)) == 5
    # nothing of the deleted round's clients is left to collide with
    store.record_round(run_id, result.model_copy(update={"round_index": 3}), [client])
    assert [len(item.client_results) for item in store.rounds_after(run_id)] == [1] * 4


@pytest.mark.parametrize(
    "call",
    [
        lambda store: store.request_stop("nobody"),
        lambda store: store.stop_requested("nobody"),
        lambda store: store.set_stop_reason("nobody", "why"),
        lambda store: store.delete_rounds_after("nobody", 0),
    ],
    ids=["request_stop", "stop_requested", "set_stop_reason", "delete_rounds_after"],
)
def test_an_unknown_run_is_refused(store: RunStore, call: Callable[[RunStore], object]) -> None:
    with pytest.raises(RunNotFound, match="nobody"):
        call(store)


def test_asking_whether_to_stop_takes_no_lock_and_reads_one_value(store: RunStore, start: RunStart) -> None:
    run_id = store.create_run(start)
    statements: list[str] = []
    event.listen(store._engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    store.stop_requested(run_id)
    # The PostgreSQL driver begins by itself.
    assert statements[0] == "BEGIN" or store._engine.dialect.name == "postgresql"
    (asked,) = [statement for statement in statements if statement != "BEGIN"]
    assert "config" not in asked


ROUND: dict[str, Any] = {
    "asked": 9,
    "late": 2,
    "note": "why",
    "downlink_bits_per_coordinate": math.inf,
    "update_norm": math.nan,
    "server_seconds": 0.25,
    "evaluate_seconds": 0.5,
    "model_version": 7,
}
CLIENT: dict[str, Any] = {
    "weight": 2.5,
    "bits_asked": 1.5,
    "downlink_payload_bytes": 2**40,
    "downlink_envelope_bytes": 2**41,
    "uplink_mbps_estimate": 20.5,
    "update_norm": math.nan,
    "clip_factor": 0.5,
    "cosine": -math.inf,
    "outlier": "norm 31 times the median",
    "staleness": 3,
    "round_asked": 0,
    "reject_reason": "why",
}


def test_every_field_of_round_and_client_comes_back(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    run_id = store.create_run(start)
    rounds: dict[int, tuple[RoundResult, list[ClientResult]]] = {}
    for index, status in enumerate(get_args(RoundStatus)):
        told = RoundResult(**{**result.model_dump(), **ROUND, "round_index": index, "status": status})
        sent = [
            ClientResult(**{**client.model_dump(), **CLIENT, "client": f"{outcome} {source}"}).model_copy(
                update={"outcome": outcome, "bits_source": source}
            )
            for outcome in get_args(Outcome)
            for source in (*get_args(BitsSource), None)
        ]
        rounds[index] = told, sorted(sent, key=lambda item: item.client)
        store.record_round(run_id, *rounds[index])
    found = store.rounds_after(run_id)
    assert len(found) == len(rounds) == 4
    for item in found:
        told, sent = rounds[item.round_index]
        # NaN is not equal to itself, but its text is
        assert repr(item.model_dump(exclude={"client_results"})) == repr(told.model_dump())
        assert [repr(one.model_dump()) for one in item.client_results] == [repr(one.model_dump()) for one in sent]


def test_totals_count_both_ways_and_no_accuracy_of_a_model_that_was_given_up(
    start: RunStart, result: RoundResult
) -> None:
    accuracies = st.none() | st.just(math.nan) | st.sampled_from([0.1, 0.2, 0.3, 0.4])
    rounds = st.lists(st.tuples(accuracies, st.sampled_from(get_args(RoundStatus)), st.integers(0, 9)), max_size=5)

    with RunStore("sqlite://") as store:

        @given(rounds)
        def check(told: list[tuple[float | None, RoundStatus, int]]) -> None:
            run_id = store.create_run(start)
            for index, (accuracy, status, size) in enumerate(told):
                changes = {"accuracy": accuracy, "status": status, "downlink_payload_bytes": size}
                store.record_round(run_id, result.model_copy(update={"round_index": index, **changes}), [])
            run = store.summary(run_id)
            kept = [accuracy for accuracy, status, _ in told if accuracy is not None and status != "rolled-back"]
            numbers = [accuracy for accuracy in kept if not math.isnan(accuracy)]
            assert run.total_downlink_payload_bytes == sum(size for _, _, size in told)
            assert repr(run.last_accuracy) == repr(kept[-1] if kept else None)
            assert run.best_accuracy == (max(numbers) if numbers else None)

        check()
