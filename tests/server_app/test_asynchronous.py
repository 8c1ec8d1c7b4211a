from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from flwr.app import Message

from client_app.app import app as client_app
from client_app.state import ClientStore
from tests.support.in_process_grid import InProcessGrid
from tests.support.lossy_grid import LossyGrid, lossy
from tests.support.runs import Value, final_model, requests_of, run_in_process, same, settings


def asynchronous(**changes: Value) -> dict[str, Value]:
    base: dict[str, Value] = {"mode": "async", "async_buffer_size": 2, "num_server_rounds": 5}
    return settings(**(base | changes))


def test_a_step_is_made_of_each_few_updates() -> None:
    run, grid = run_in_process(asynchronous(), clients=5)
    assert run.status == "completed"
    assert [item.clients for item in run.rounds] == [2] * 5
    assert run.last_accuracy is not None
    assert run.last_accuracy > 0.9
    seeds = [(item.encode_seed, item.training_seed) for item in requests_of(grid)]
    assert len({seed for pair in seeds for seed in pair}) == 2 * len(seeds)


def test_older_updates_weigh_less_and_say_how_old_they_are() -> None:
    config = asynchronous(async_concurrency=4, num_server_rounds=6)
    run, _ = run_in_process(config, clients=5)
    found = [client for item in run.rounds for client in item.client_results if client.outcome == "applied"]
    ages = {client.staleness for client in found}
    assert 0 in ages
    assert 1 in ages
    for client in found:
        assert client.staleness is not None
        assert client.weight == pytest.approx(40 / math.sqrt(1 + client.staleness))


def test_updates_that_are_too_old_are_rejected_by_name() -> None:
    config = asynchronous(max_staleness=1, num_server_rounds=6)
    grid = lossy(config, 5, delay=lambda node, time: 3 if (node, time) == (1000, 1) else 0)
    run, _ = run_in_process(config, grid=grid)
    rejected = [client for item in run.rounds for client in item.client_results if client.outcome == "rejected"]
    assert rejected
    assert {client.client for client in rejected} == {"client-0"}
    assert "versions old, max-staleness is 1" in str(rejected[0].reject_reason)
    # It is told that its update was not used.
    last = [item for item in requests_of(grid) if item.client == "client-0"][-1]
    assert last.last_applied_round < last.round_index


def test_a_failure_that_comes_too_late_keeps_its_reason() -> None:
    config = asynchronous(max_staleness=1, num_server_rounds=6)
    grid = lossy(config, 5, delay=lambda node, time: 3 if (node, time) == (1000, 1) else 0)
    grid.tamper[1000] = lambda message: message if "metrics" not in message.content else _broken(message)
    run, _ = run_in_process(config, grid=grid)
    first, *_ = (client for item in run.rounds for client in item.client_results if client.client == "client-0")
    assert (first.outcome, first.staleness) == ("rejected", 3)
    assert str(first.reject_reason).startswith("MalformedMessage")


def test_every_payload_is_checked_against_the_version_it_was_made_from() -> None:
    config = asynchronous(downlink_compressor="eden:bits=3,scale=mmse", async_concurrency=3, num_server_rounds=6)
    run, grid = run_in_process(config, clients=4)
    assert all(client.reject_reason is None for item in run.rounds for client in item.client_results)
    versions = [item.version for item in requests_of(grid)]
    assert versions == sorted(versions)
    assert len(set(versions)) > 3

    def replay(message: Message) -> Message:
        if "metrics" in message.content:
            message.content.config_records["config"]["round-index"] = 1
        return message

    tampered, _ = run_in_process(config, clients=4, tamper={1001: replay})
    reasons = [
        str(client.reject_reason)
        for item in tampered.rounds
        for client in item.client_results
        if client.client == "client-1" and client.outcome == "rejected"
    ]
    assert reasons
    assert all(reason.startswith("reply is of client-1, round 1, not client-1, ") for reason in reasons)


def test_nobody_is_waited_for_for_ever() -> None:
    config = asynchronous(round_timeout=0.2, num_server_rounds=2, async_buffer_size=3)
    grid = lossy(config, 3, delay=lambda node, _: None if node == 1002 else 0)
    run, _ = run_in_process(config, grid=grid)
    assert [item.status for item in run.rounds] == ["partial", "partial"]
    assert any(
        client.reject_reason == "no reply before the deadline" for item in run.rounds for client in item.client_results
    )


def test_when_all_fail_the_step_is_skipped_and_the_next_one_begins() -> None:
    config = asynchronous(num_server_rounds=2)
    grid = InProcessGrid.of(client_app, 3, config)
    for node in grid.nodes:
        grid.tamper[node] = lambda message: message if "metrics" not in message.content else _broken(message)
    run, _ = run_in_process(config, grid=grid)
    assert [item.status for item in run.rounds] == ["skipped", "skipped"]


def _broken(message: Message) -> Message:
    del message.content["arrays"]
    return message


def test_an_interrupted_run_can_be_resumed() -> None:
    config = asynchronous(num_server_rounds=3, compressor="topk:fraction=0.1")
    short, _ = run_in_process(config, clients=4)
    before = final_model(short)
    resumed, grid = run_in_process(config | {"num-server-rounds": 6, "resume": short.id}, clients=4)
    assert (resumed.rounds_done, resumed.status) == (6, "completed")
    # Requests go on counting, so that no seed is used twice.
    assert min(item.round_index for item in requests_of(grid)) > 3
    assert not same(before, final_model(resumed))


def test_clients_keep_states_since_the_oldest_checkpoint_only() -> None:
    run, grid = run_in_process(asynchronous(num_server_rounds=8, compressor="topk:fraction=0.1"), clients=4)
    for name in ("client-0", "client-3"):
        asked = [item.round_index for item in requests_of(grid) if item.client == name]
        kept = list(ClientStore.open(run=run.id, client=name).folder.glob("round-*"))
        assert len(asked) > 3
        assert 0 < len(kept) <= 3


def test_a_reply_after_its_time_is_nobody_s() -> None:
    # client-2's first reply comes when it was given up and asked again.
    config = asynchronous(round_timeout=0.2, num_server_rounds=8, async_buffer_size=3)
    grid = lossy(config, 3, delay=lambda node, time: 9 if (node, time) == (1002, 1) else 0)
    run, _ = run_in_process(config, grid=grid)
    assert [item.clients for item in run.rounds] == [2] + [3] * 7
    reasons = [client.reject_reason for item in run.rounds for client in item.client_results if client.reject_reason]
    assert reasons == ["no reply before the deadline"]


def test_requests_are_measured_and_live_as_long_as_they_are_waited_for() -> None:
    config = asynchronous(round_timeout=7.0, client_bits="client-1=0.5", compressor="qsgd:bits=4", num_server_rounds=2)
    run, grid = run_in_process(config, clients=3)
    found = [client for item in run.rounds for client in item.client_results]
    assert all(client.downlink_envelope_bytes > 500 for client in found if client.outcome == "applied")
    assert {item.metadata.ttl for item in grid.pushed if "parts" in item.content} == {7.0}
    # Who cannot keep to its budget is left out by name, once a step.
    left_out = [client for client in found if client.outcome == "rejected"]
    assert [client.client for client in left_out] == ["client-1"] * 2
    assert all(str(client.reject_reason).startswith("BudgetImpossible") for client in left_out)


def test_as_many_clients_work_at_a_time_as_may() -> None:
    config = asynchronous(async_concurrency=2, async_buffer_size=1, num_server_rounds=4)
    at_work: list[int] = []

    class Counting(LossyGrid):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            identifiers = super().push_messages(messages)
            at_work.append(len([item for item in self._held if item in self._replies]))
            return identifiers

    grid = Counting.of(client_app, 5, config)
    assert isinstance(grid, Counting)
    grid.delay = lambda _node, _time: 1
    run, _ = run_in_process(config, grid=grid)
    assert run.status == "completed"
    assert max(at_work) == 2


def test_bandwidth_is_estimated() -> None:
    run, _ = run_in_process(asynchronous(target_upload_seconds=5.0), clients=3)
    sources = [client.bits_source for item in run.rounds for client in item.client_results]
    assert sources[0] == "run"
    assert "estimate" in sources
