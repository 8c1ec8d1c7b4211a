from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, select

from dashboard.models import Round
from dashboard.store import (
    AmbiguousRun,
    ClientResult,
    FinalStatus,
    RoundResult,
    RunNotFound,
    RunStart,
    RunStore,
    UnknownRevision,
)
from fedcomp.errors import ConfigError, FedcompError
from tests.support.postgres import SLOW_ON_POSTGRESQL

NOW = datetime(2026, 11, 29, 17, 53, 12, tzinfo=UTC)
WRITE_ROUNDS = """
url, worker, shared = sys.argv[1:4]
start = RunStart(name=worker, task="t", data_label="d", compressor="identity", strategy="fedavg", seed=1,
                 num_rounds=5, dim=8, config={}, environment={})
def result(index):
    return RoundResult(round_index=index, accuracy=index / 10, clients=2, uplink_payload_bytes=10,
                       uplink_envelope_bytes=1, downlink_payload_bytes=1, downlink_envelope_bytes=1,
                       bits_per_coordinate=2.0, seconds=0.1)
def client(name):
    return ClientResult(client=name, client_id="1", node_id="2", num_examples=3, payload_bytes=5, envelope_bytes=1,
                        bits_per_coordinate=2.0, train_seconds=0.1, encode_seconds=0.1, decode_seconds=0.1,
                        device="cpu")
with RunStore(url) as store:
    mine = store.create_run(start)
    store.start_run(mine)
    for index in range(1, 6):
        store.record_round(mine, result(index), [client("a"), client("b")])
        store.record_round(shared, result(100 * int(worker) + index), [client(worker)])
        store.record_round(shared, result(1), [client(worker), client("both")])
        store.list_runs()
    store.finish_run(mine, "completed")
sys.stdout.write(mine)
"""


def at(start: RunStart, seconds: float, **changes: Any) -> RunStart:
    return start.model_copy(update={"created_at": NOW + timedelta(seconds=seconds), **changes})


def test_a_run_comes_back_as_it_was_written(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    rejected = client.model_copy(update={"client": "a rejected one", "reject_reason": "NonFinite", "vnmse": None})
    run_id = store.create_run(start)
    store.record_round(run_id, result, [client, rejected])
    run = store.find_run(run_id)
    assert run.id == run_id
    assert run.status == "queued"
    given = start.model_dump()
    assert {name: getattr(run, name) for name in given} == given
    (round_,) = run.rounds
    given = result.model_dump()
    assert {name: getattr(round_, name) for name in given} == given
    assert round_.client_results == (rejected, client)


def test_the_id_begins_with_the_time_of_creation(store: RunStore, start: RunStart) -> None:
    assert store.create_run(at(start, 0)).startswith("20261129-175312-")


def test_an_id_that_is_taken_is_not_given_again(
    store: RunStore, start: RunStart, monkeypatch: pytest.MonkeyPatch
) -> None:
    entropy = iter([b"aaaa", b"aaaa", b"bbbb"])
    monkeypatch.setattr("dashboard.store.token_bytes", lambda _: next(entropy))
    assert store.create_run(at(start, 0)) != store.create_run(at(start, 0))
    assert len(store.list_runs()) == 2


def test_a_run_goes_through_its_states(store: RunStore, start: RunStart) -> None:
    run_id = store.create_run(start)
    assert store.summary(run_id).started_at is None
    store.start_run(run_id)
    running = store.summary(run_id)
    assert (running.status, running.finished_at) == ("running", None)
    assert running.started_at is not None
    assert running.started_at.tzinfo is UTC
    assert running.flower_run_id == start.flower_run_id
    store.finish_run(run_id, "failed", "out of memory")
    failed = store.summary(run_id)
    assert (failed.status, failed.error) == ("failed", "out of memory")
    assert failed.finished_at is not None
    assert failed.finished_at >= running.started_at


def test_a_run_that_starts_again_keeps_its_first_start(store: RunStore, start: RunStart, result: RoundResult) -> None:
    run_id = store.create_run(start)
    store.start_run(run_id)
    first = store.summary(run_id).started_at
    store.record_round(run_id, result, [])
    store.finish_run(run_id, "failed", "killed")
    store.start_run(run_id, flower_run_id="2")
    again = store.summary(run_id)
    assert (again.status, again.error, again.finished_at, again.started_at) == ("running", None, None, first)
    assert (again.flower_run_id, again.rounds_done) == ("2", 1)


def test_only_final_states_finish_a_run(store: RunStore, start: RunStart) -> None:
    run_id = store.create_run(start)
    unchecked: Any = "running"
    with pytest.raises(ConfigError, match=r"status='running'.*completed, failed, cancelled"):
        store.finish_run(run_id, unchecked)
    final: FinalStatus = "cancelled"
    store.finish_run(run_id, final)
    assert store.summary(run_id).status == "cancelled"


def test_the_checkpoint_path_is_kept(store: RunStore, start: RunStart) -> None:
    run_id = store.create_run(start)
    store.set_checkpoint(run_id, "checkpoints/a")
    store.set_checkpoint(run_id, "checkpoints/b")
    assert store.summary(run_id).checkpoint_path == "checkpoints/b"


def test_recording_a_round_again_replaces_it(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    run_id = store.create_run(start)
    other = client.model_copy(update={"client": "gone later"})
    store.record_round(run_id, result, [client, other])
    second = result.model_copy(update={"accuracy": 0.75, "status": "partial"})
    store.record_round(run_id, second, [client])
    store.record_round(run_id, second, [client])
    (round_,) = store.rounds_after(run_id)
    assert (round_.accuracy, round_.status, round_.client_results) == (0.75, "partial", (client,))


def test_a_client_name_twice_in_a_round_is_refused(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    run_id = store.create_run(start)
    with pytest.raises(ConfigError, match="hospital-a"):
        store.record_round(run_id, result, [client, client])
    assert store.rounds_after(run_id) == []


def test_nan_and_infinities_survive(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    run_id = store.create_run(start)
    odd = result.model_copy(update={"accuracy": math.nan, "loss": math.inf, "train_loss": -math.inf})
    store.record_round(run_id, odd, [client.model_copy(update={"train_loss": math.nan, "vnmse": math.inf})])
    (round_,) = store.rounds_after(run_id)
    assert round_.accuracy is not None
    assert math.isnan(round_.accuracy)
    assert (round_.loss, round_.train_loss) == (math.inf, -math.inf)
    (sent,) = round_.client_results
    assert sent.train_loss is not None
    assert math.isnan(sent.train_loss)
    assert sent.vnmse == math.inf


def test_a_summary_adds_up_the_rounds(store: RunStore, start: RunStart, result: RoundResult) -> None:
    run_id = store.create_run(start)
    empty = store.summary(run_id)
    assert (empty.rounds_done, empty.last_accuracy, empty.best_accuracy) == (0, None, None)
    assert (empty.total_uplink_payload_bytes, empty.mean_bits_per_coordinate) == (0, None)
    rounds: list[dict[str, Any]] = [
        {"accuracy": 0.1, "clients": 0, "bits_per_coordinate": math.nan, "uplink_payload_bytes": 0},
        {"accuracy": 0.9, "clients": 1, "bits_per_coordinate": 4.0},
        {"accuracy": math.nan, "clients": 0, "bits_per_coordinate": math.nan, "uplink_payload_bytes": 0},
        {"accuracy": 0.4, "clients": 3, "bits_per_coordinate": 2.0},
        {"accuracy": None, "clients": 0, "bits_per_coordinate": 0.0, "uplink_payload_bytes": 0},
    ]
    for index, changes in enumerate(rounds):
        store.record_round(run_id, result.model_copy(update={"round_index": index, **changes}), [])
    run = store.summary(run_id)
    assert (run.rounds_done, run.last_accuracy, run.best_accuracy) == (4, 0.4, 0.9)
    assert (run.total_uplink_payload_bytes, run.mean_bits_per_coordinate) == (2**41, 2.5)
    assert store.list_runs() == [run]
    detail = store.find_run(run_id).model_dump()
    assert {name: detail[name] for name in run.model_dump()} == run.model_dump()


def test_a_run_that_diverged_has_nan_as_its_last_accuracy(
    store: RunStore, start: RunStart, result: RoundResult
) -> None:
    run_id = store.create_run(start)
    store.record_round(run_id, result, [])
    store.record_round(run_id, result.model_copy(update={"round_index": 2, "accuracy": math.nan}), [])
    run = store.summary(run_id)
    assert run.last_accuracy is not None
    assert math.isnan(run.last_accuracy)
    assert run.best_accuracy == 0.5


def test_totals_stay_with_their_run(store: RunStore, start: RunStart, result: RoundResult) -> None:
    for seconds, accuracy in ((0, 0.1), (1, 0.2)):
        run_id = store.create_run(at(start, seconds))
        store.record_round(run_id, result.model_copy(update={"accuracy": accuracy}), [])
    assert [run.last_accuracy for run in store.list_runs()] == [0.2, 0.1]


def test_runs_are_listed_newest_first(store: RunStore, start: RunStart) -> None:
    ids = {seconds: store.create_run(at(start, seconds)) for seconds in (1, 2, 0)}
    assert [run.id for run in store.list_runs()] == [ids[2], ids[1], ids[0]]
    assert [run.id for run in store.list_runs(limit=2)] == [ids[2], ids[1]]


def test_rounds_come_in_order_and_after_an_index(store: RunStore, start: RunStart, result: RoundResult) -> None:
    run_id = store.create_run(start)
    for index in (10, 0, 9):
        store.record_round(run_id, result.model_copy(update={"round_index": index}), [])
    assert [round_.round_index for round_ in store.find_run(run_id).rounds] == [0, 9, 10]
    assert [round_.round_index for round_ in store.rounds_after(run_id, 0)] == [9, 10]


def test_a_run_is_found_by_what_a_person_types(store: RunStore, start: RunStart) -> None:
    old = store.create_run(at(start, 0, name="baseline"))
    new = store.create_run(at(start, 60, name="baseline"))
    last = store.create_run(at(start, 120, name="20261129-1753"))
    assert store.find_run(old).id == old
    assert store.find_run(new[:14]).id == new
    assert store.find_run("baseline").id == new
    assert store.find_run("latest").id == last
    # a name that fits exactly goes before an id that fits in part
    assert store.find_run("20261129-1753").id == last


@pytest.mark.parametrize("reference", ["", "nobody", "%", "_0261129", "latest"])
def test_a_reference_that_fits_nothing_is_named(store: RunStore, start: RunStart, reference: str) -> None:
    if reference != "latest":
        store.create_run(at(start, 0, name=""))
    with pytest.raises(RunNotFound, match="no run") as caught:
        store.find_run(reference)
    assert repr(reference) in str(caught.value)
    assert isinstance(caught.value, FedcompError)


def test_an_ambiguous_reference_names_the_candidates(store: RunStore, start: RunStart) -> None:
    ids = [store.create_run(at(start, seconds)) for seconds in range(12)]
    with pytest.raises(AmbiguousRun, match="fits 4 runs") as some:
        store.find_run("20261129-17532")
    assert some.value.candidates == tuple(ids[:7:-1])
    assert all(run_id in str(some.value) for run_id in ids[8:])
    with pytest.raises(AmbiguousRun, match=r"fits 12 runs: .* and 2 more") as all_of_them:
        store.find_run("2026")
    assert len(all_of_them.value.candidates) == 12
    assert isinstance(some.value, FedcompError)


def test_a_run_is_found_by_its_flower_run(store: RunStore, start: RunStart) -> None:
    store.create_run(at(start, 0, flower_run_id="7"))
    newest = store.create_run(at(start, 1, flower_run_id="7"))
    store.create_run(at(start, 2, flower_run_id=None))
    found = store.find_by_flower_run("7")
    assert found is not None
    assert found.id == newest
    assert store.find_by_flower_run("8") is None


@pytest.mark.parametrize(
    "call",
    [
        lambda store, _: store.start_run("nobody"),
        lambda store, result: store.record_round("nobody", result, []),
        lambda store, _: store.finish_run("nobody", "completed"),
        lambda store, _: store.set_checkpoint("nobody", "path"),
        lambda store, _: store.summary("nobody"),
        lambda store, _: store.rounds_after("nobody"),
    ],
    ids=["start_run", "record_round", "finish_run", "set_checkpoint", "summary", "rounds_after"],
)
def test_an_unknown_run_is_refused(
    store: RunStore, result: RoundResult, call: Callable[[RunStore, RoundResult], object]
) -> None:
    with pytest.raises(RunNotFound, match="nobody"):
        call(store, result)


def test_reading_takes_no_lock_and_few_queries(store: RunStore, start: RunStart, result: RoundResult) -> None:
    for seconds in range(20):
        store.record_round(store.create_run(at(start, seconds)), result, [])
    statements: list[str] = []
    event.listen(store._engine, "before_cursor_execute", lambda *arguments: statements.append(arguments[2]))
    assert len(store.list_runs()) == 20
    # The PostgreSQL driver begins by itself.
    assert statements[0] == "BEGIN" or store._engine.dialect.name == "postgresql"
    assert len([statement for statement in statements if statement != "BEGIN"]) == 4
    # the totals are those of the listed runs, not of every run there ever was
    assert any("rounds.run_id IN (" in statement for statement in statements)


def test_a_newer_database_is_refused(url: str) -> None:
    with RunStore(url) as store, store._engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UnknownRevision, match="9999"):
        RunStore(url)


def test_a_store_can_be_closed_twice_and_opened_again(url: str, start: RunStart) -> None:
    with RunStore(url) as store:
        run_id = store.create_run(start)
    store.close()
    with RunStore(url) as store:
        assert store.find_run("latest").id == run_id


@pytest.mark.parametrize("url", SLOW_ON_POSTGRESQL, indirect=True)
def test_eight_writing_processes_lose_nothing(
    url: str, start: RunStart, race: Callable[[str, Sequence[Sequence[str]]], list[str]]
) -> None:
    with RunStore(url) as store:
        shared = store.create_run(start)
        ids = race(WRITE_ROUNDS, [[url, str(worker), shared] for worker in range(1, 9)])
        assert {run.id for run in store.list_runs()} == {shared, *ids}
        for worker, run_id in enumerate(ids, 1):
            run = store.find_run(run_id)
            assert (run.name, run.status, run.rounds_done) == (str(worker), "completed", 5)
            assert [[sent.client for sent in round_.client_results] for round_ in run.rounds] == [["a", "b"]] * 5
        rounds = {round_.round_index: round_ for round_ in store.rounds_after(shared)}
    assert set(rounds) == {1} | {100 * worker + index for worker in range(1, 9) for index in range(1, 6)}
    # the round that all of them wrote is one writer's, whole
    assert len(rounds.pop(1).client_results) == 2
    assert all(round_.client_results[0].client == str(index // 100) for index, round_ in rounds.items())


@pytest.mark.parametrize(("values", "mean"), [((math.inf, -math.inf), math.nan), ((math.inf, 1.0), math.inf)])
def test_a_mean_of_infinities_costs_no_round(
    store: RunStore, start: RunStart, result: RoundResult, client: ClientResult, values: tuple[float, ...], mean: float
) -> None:
    run_id = store.create_run(start)
    clients = [client.model_copy(update={"client": str(k), "vnmse": value}) for k, value in enumerate(values)]
    store.record_round(run_id, result, clients)
    with store.reading() as session:
        assert repr(session.scalar(select(Round.vnmse))) == repr(mean)
