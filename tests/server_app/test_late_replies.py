"""Replies out of turn: in another order, after their round, of clients that are busy."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from flwr.app import Error, Message

from client_app.app import app as client_app
from dashboard.schemas import ClientResult, RoundDetail
from fedcomp.flower.mailbox import POLL_SECONDS
from fedcomp.flower.messages import TrainReply
from server_app.coordinator import Coordinator
from server_app.outcomes import ClientOutcome
from server_app.roster import Client
from server_app.rounds import observe_uplink
from tests.server_app.test_run_state import fresh
from tests.support.lossy_grid import LossyGrid, lossy
from tests.support.runs import requests_of, run_in_process, settings


class Watching(LossyGrid):
    """Remembers in which order replies to training were handed out."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = list(super().pull_messages(message_ids))
        taken = self.__dict__.setdefault("taken", [])
        taken += [item.metadata.src_node_id for item in found if "metrics" in item.content]
        return found


@pytest.mark.parametrize(
    ("changes", "order"),
    [({}, [0, 1, 2]), ({"target_upload_seconds": 5.0}, [1, 2, 0])],
)
def test_replies_are_taken_in_a_fixed_order_unless_the_first_are_to_be_timed(
    changes: dict[str, float], order: list[int]
) -> None:
    config = settings(num_server_rounds=1, round_timeout=60.0, **changes)
    grid = Watching.of(client_app, 3, config)
    assert isinstance(grid, Watching)
    grid.delay = lambda node, _: 3 if node == 1000 else 0
    grid.nodes = dict(reversed(list(grid.nodes.items())))
    run_in_process(config, grid=grid)
    by_source = {item.client: index for index, item in enumerate(requests_of(grid))}
    assert list(by_source) == ["client-0", "client-1", "client-2"]
    assert [node - 1000 for node in grid.__dict__["taken"]] == order


def late_of(rounds: Sequence[RoundDetail]) -> list[ClientResult]:
    return [client for item in rounds for client in item.client_results if client.outcome == "late"]


def test_a_late_reply_counts_its_own_bytes_and_not_its_request_s_again() -> None:
    config = settings(clients_per_round=2, over_selection=1, num_server_rounds=2, downlink_compressor="identity")
    grid = lossy(config, 3, delay=lambda node, _: 2 if node == 1000 else 0)
    run, _ = run_in_process(config, grid=grid)
    (late,) = late_of(run.rounds)
    assert (late.downlink_payload_bytes, late.downlink_envelope_bytes) == (0, 0)
    assert late.payload_bytes > 0
    first, second = run.rounds
    (not_taken,) = [client for client in first.client_results if client.outcome == "over-selected"]
    assert not_taken.downlink_payload_bytes > 0
    assert not_taken.downlink_envelope_bytes > 500
    assert not_taken.payload_bytes == 0
    for item in (first, second):
        assert item.downlink_envelope_bytes == sum(client.downlink_envelope_bytes for client in item.client_results)
        assert item.downlink_payload_bytes == sum(client.downlink_payload_bytes for client in item.client_results)
    assert (first.asked, first.late, second.asked, second.late) == (3, 0, 2, 1)
    # `max-uplink-mb` counts all that came.
    state = json.loads((Path(str(run.checkpoint_path)) / "state.json").read_text())
    assert state["server"]["uplink_bytes"] == run.total_uplink_payload_bytes == 5 * late.payload_bytes


def test_who_does_not_reply_to_a_round_that_lacks_updates_is_rejected() -> None:
    config = settings(clients_per_round=2, over_selection=1, num_server_rounds=1, round_timeout=0.2)
    grid = lossy(config, 3, delay=lambda node, _: None if node != 1000 else 0)
    run, _ = run_in_process(config, grid=grid)
    assert [(client.outcome, client.reject_reason) for client in run.rounds[0].client_results] == [
        ("applied", None),
        ("rejected", "no reply before the deadline"),
        ("rejected", "no reply before the deadline"),
    ]
    assert run.rounds[0].status == "partial"


def test_a_late_failure_keeps_its_reason() -> None:
    config = settings(clients_per_round=2, over_selection=1, num_server_rounds=2)
    grid = lossy(config, 3, delay=lambda node, _: 2 if node == 1000 else 0)

    def crash(message: Message) -> Message:
        return Message(Error(2, "ValueError: no data"), reply_to=message) if "metrics" in message.content else message

    run, _ = run_in_process(config, grid=grid, tamper={1000: crash})
    (late,) = late_of(run.rounds)
    assert (late.client, late.reject_reason) == ("client-0", "client error 2: ValueError: no data")


def test_a_client_that_stays_silent_is_free_again_when_its_message_has_died() -> None:
    # All three are needed, so the second round waits for as long as the first one's messages live.
    config = settings(num_server_rounds=2, round_timeout=0.15, min_clients=3, node_timeout=2.0)
    grid = lossy(config, 3, delay=lambda node, time: None if (node, time) == (1000, 1) else 0)
    run, _ = run_in_process(config, grid=grid)
    assert [item.clients for item in run.rounds] == [2, 3]


def test_fewer_clients_than_a_cohort_make_a_whole_round() -> None:
    run, _ = run_in_process(settings(clients_per_round=5, num_server_rounds=1))
    assert (run.rounds[0].clients, run.rounds[0].status) == (3, "ok")


def outcome(*, simulated: bool = False) -> ClientOutcome:
    reply = TrainReply(b"", {}, "bank", 1, "cpu", -1, 1.0, 0.5, 0.1, train_seconds=3.0, encode_seconds=1.0)
    client = Client("bank", 1, 7, "cpu", "0.1.0", simulated=simulated)
    return ClientOutcome(client, reply=reply, payload_bytes=200_000, envelope_bytes=50_000)


def observed(item: ClientOutcome, seconds: float) -> float | None:
    run = SimpleNamespace(state=fresh())
    observe_uplink(cast(Coordinator, run), item, seconds)
    found: float | None = run.state.uplinks.get("bank")
    return found


def test_bandwidth_is_all_bytes_over_the_time_that_was_not_work() -> None:
    assert observed(outcome(), 6.0) == pytest.approx(8 * 250_000 / 2.0 / 1e6)
    assert observed(outcome(), 4.0) is None
    assert observed(outcome(simulated=True), 6.0) is None
    assert observed(ClientOutcome(outcome().client, "rejected", "no reply"), 6.0) is None


def test_a_round_without_a_mean_still_repeats_what_the_downlink_lost() -> None:
    config = settings(
        min_replies=3, num_server_rounds=3, downlink_compressor="eden:bits=2,scale=mmse", round_timeout=0.2
    )
    grid = lossy(config, 3, delay=lambda node, time: None if (node, time) == (1002, 1) else 0)
    config |= {"min-clients": 3, "node-timeout": 2.0}
    run, _ = run_in_process(config, grid=grid)
    assert [item.status for item in run.rounds] == ["skipped", "ok", "ok"]
    second = [item for item in requests_of(grid) if item.round_index == 2 and item.client == "client-0"]
    assert [(item.version, [part.base for part in item.parts]) for item in second] == [(1, [0])]


def test_a_round_looks_for_replies_no_longer_than_its_deadline() -> None:
    # The last client is silent; each look is followed by a pause, so that the deadline bounds their number.
    class Counting(LossyGrid):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            wanted = list(message_ids)
            silent = [item for item in self.pushed if item.metadata.message_id in wanted and "parts" in item.content]
            looks = self.__dict__.setdefault("looks", [])
            looks += [item for item in silent if item.metadata.dst_node_id == 1002]
            return super().pull_messages(wanted)

    config = settings(num_server_rounds=1, round_timeout=10 * POLL_SECONDS)
    grid = Counting.of(client_app, 3, config)
    assert isinstance(grid, Counting)
    grid.delay = lambda node, _: None if node == 1002 else 0
    run, _ = run_in_process(config, grid=grid)
    assert run.rounds[0].clients == 2
    assert 1 <= len(grid.__dict__["looks"]) <= 11
