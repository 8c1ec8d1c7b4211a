from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from flwr.app import Message

from client_app.app import app as client_app
from fedcomp.errors import ConfigError
from fedcomp.flower.mailbox import POLL_SECONDS
from server_app.ledger import Ledger
from server_app.roster import Roster, TooFewClients
from tests.support.in_process_grid import InProcessGrid
from tests.support.runs import identify, settings


def grid(clients: int = 3) -> InProcessGrid:
    identify()
    return InProcessGrid.of(client_app, clients, settings())


def roster_of(connection: InProcessGrid, ledger: Ledger | None = None, parts: int | None = None) -> Roster:
    return Roster(connection, "a-run", ledger or Ledger(), parts)


def test_clients_go_by_partition_not_by_node() -> None:
    found = roster_of(grid()).wait_for(3, timeout=5)
    assert [(client.name, client.client_id, client.node_id) for client in found] == [
        ("client-0", 0, 1000),
        ("client-1", 1, 1001),
        ("client-2", 2, 1002),
    ]
    assert found[0].device == "cpu"
    assert found[0].version


def test_a_client_is_asked_once() -> None:
    connection = grid()
    roster = roster_of(connection)
    roster.wait_for(3, timeout=5)
    roster.wait_for(3, timeout=5)
    assert len(connection.pushed) == 3


def test_named_sites_have_ids_of_their_own() -> None:
    connection = grid(2)
    connection.nodes = {
        7: {"partition-id": 0, "num-partitions": 2, "site": "hospital"},
        8: {"partition-id": 1, "num-partitions": 2, "site": "bank"},
    }
    found = {client.name: client.client_id for client in roster_of(connection).wait_for(2, timeout=5)}
    assert set(found) == {"hospital", "bank"}
    assert all(identifier > 2**32 for identifier in found.values())


def test_a_client_that_comes_back_under_another_node_id_is_the_same() -> None:
    connection = grid(2)
    roster = roster_of(connection)
    roster.wait_for(2, timeout=5)
    connection.nodes = {1000: connection.nodes[1000], 55: connection.nodes[1001]}
    assert [(client.name, client.node_id) for client in roster.wait_for(2, timeout=5)] == [
        ("client-0", 1000),
        ("client-1", 55),
    ]


def test_two_nodes_of_one_name_are_one_client_and_the_second_is_named(caplog: pytest.LogCaptureFixture) -> None:
    connection = grid(3)
    connection.nodes = {**connection.nodes, 1009: connection.nodes[1001]}
    roster = roster_of(connection)
    with caplog.at_level("WARNING", logger="fedcomp.server"):
        for _ in range(3):
            found = [(client.name, client.node_id) for client in roster.wait_for(3, timeout=5)]
            assert found == [("client-0", 1000), ("client-1", 1001), ("client-2", 1002)]
    # Each was asked once.
    assert len(connection.pushed) == 4
    assert "it says it is client-1, as node 1001 does; give each SuperNode its own partition-id or site" in caplog.text


def test_a_node_that_cannot_say_who_it_is_is_left_out() -> None:
    connection = grid(3)
    connection.nodes = {**connection.nodes, 1001: {"partition-id": 9, "num-partitions": 3}}
    assert [client.name for client in roster_of(connection).wait_for(2, timeout=5)] == ["client-0", "client-2"]


def test_waiting_is_bounded() -> None:
    with pytest.raises(TooFewClients, match="3 clients answered within 0 s, min-clients is 4"):
        roster_of(grid()).wait_for(4, timeout=0)


def test_a_node_that_does_not_answer_holds_up_nobody_for_longer_than_the_timeout() -> None:
    connection = grid(3)
    connection.tamper[1001] = lambda _: None
    roster = roster_of(connection)
    started = time.monotonic()
    assert [client.name for client in roster.wait_for(2, timeout=0.3)] == ["client-0", "client-2"]
    assert [client.name for client in roster.wait_for(2, timeout=60)] == ["client-0", "client-2"]
    assert time.monotonic() - started < 10


def test_what_is_waited_for_is_said(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level("INFO", logger="fedcomp.server"),
        pytest.raises(TooFewClients, match="still at work"),
    ):
        roster_of(grid()).wait_for(2, timeout=0.1, busy=lambda: {1000, 1001})
    assert "1 of at least 2 are free; still at work: client-0, client-1" in caplog.text


def test_busy_clients_are_left_out() -> None:
    found = roster_of(grid()).wait_for(2, timeout=5, busy=lambda: {1001})
    assert [client.name for client in found] == ["client-0", "client-2"]


def test_other_partitions_than_the_run_began_with_are_refused() -> None:
    with pytest.raises(ConfigError, match="divides the data into 3 parts, this run into 4; start all clients with"):
        roster_of(grid(), parts=4).wait_for(3, timeout=5)
    roster = roster_of(grid())
    roster.wait_for(3, timeout=5)
    assert roster.num_partitions == 3


def test_a_client_that_lost_its_model_gets_a_whole_one() -> None:
    ledger = Ledger()
    ledger["client-1"].held_version = 5
    roster_of(grid(), ledger).wait_for(3, timeout=5)
    assert ledger["client-1"].held_version is None


def test_a_site_says_what_it_allows() -> None:
    connection = grid(2)
    connection.nodes = {7: {"partition-id": 0, "num-partitions": 1, "bits": 1.5, "uplink-mbps": 20, "device": "cpu"}}
    (found,) = roster_of(connection).wait_for(1, timeout=5)
    assert (found.bits, found.uplink_mbps, found.device, found.simulated) == (1.5, 20.0, "cpu", False)


def test_a_client_that_has_gone_is_not_waited_for_nor_asked() -> None:
    connection = grid(3)
    roster = roster_of(connection)
    roster.wait_for(3, timeout=5)
    nodes = connection.nodes
    connection.nodes = {node: nodes[node] for node in (1000, 1002)}
    assert [client.name for client in roster.connected()] == ["client-0", "client-2"]
    connection.nodes = nodes
    assert len(roster.connected()) == 3
    assert len(connection.pushed) == 3


class SlowToAnswer(InProcessGrid):
    """Node 1001 takes some pulls to say who it is."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        asked = {item.metadata.message_id: item.metadata.dst_node_id for item in self.pushed}
        wanted = list(message_ids)
        if [asked[item] for item in wanted] == [1001]:
            self.__dict__["left"] = self.__dict__.get("left", 4) - 1
            if self.__dict__["left"] > 0:
                return []
        return super().pull_messages(wanted)


def test_the_first_round_waits_for_all_that_are_connected_and_later_ones_for_nobody() -> None:
    identify()
    connection = SlowToAnswer.of(client_app, 3, settings())
    roster = roster_of(connection)
    assert [client.name for client in roster.wait_for(2, timeout=5)] == ["client-0", "client-1", "client-2"]
    connection.nodes = {**connection.nodes, 1003: {"partition-id": 9, "num-partitions": 3}}
    assert len(roster.wait_for(2, timeout=5)) == 3


def test_a_node_that_could_not_say_who_it_is_is_asked_again_when_it_comes_back() -> None:
    connection = grid(3)
    good = connection.nodes
    connection.nodes = {**good, 1001: {"partition-id": 9, "num-partitions": 3}}
    roster = roster_of(connection)
    assert len(roster.wait_for(2, timeout=5)) == 2
    assert len(roster.connected()) == 2
    assert len(connection.pushed) == 3
    connection.nodes = {node: good[node] for node in (1000, 1002)}
    roster.connected()
    connection.nodes = good
    assert [client.name for client in roster.connected()] == ["client-0", "client-1", "client-2"]


def test_a_question_to_a_node_that_has_gone_is_dropped() -> None:
    connection = grid(3)
    connection.tamper[1001] = lambda _: None
    nodes = connection.nodes
    roster = roster_of(connection)
    assert len(roster.connected()) == 2
    connection.nodes = {node: nodes[node] for node in (1000, 1002)}
    assert len(roster.connected()) == 2
    connection.tamper.clear()
    connection.nodes = nodes
    assert len(roster.connected()) == 3


@pytest.mark.parametrize(
    ("known", "says", "then"), [(None, 4, None), (3, 4, 3), (3, 3, 3), (3, -1, None), (None, -1, None)]
)
def test_a_client_can_only_say_that_it_keeps_no_model(known: int | None, says: int, then: int | None) -> None:
    # A client that played a round before the server went down holds more than it will when that round is played again.
    ledger = Ledger()
    ledger["client-1"].held_version = known
    connection = grid(2)

    def say(message: Message) -> Message:
        message.content.config_records["config"]["holds-version"] = says
        return message

    connection.tamper[1001] = say
    roster_of(connection, ledger).wait_for(2, timeout=5)
    assert ledger["client-1"].held_version == then


def test_the_wait_for_introductions_has_a_bound_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    class Counting(InProcessGrid):
        def get_node_ids(self) -> Iterable[int]:
            looks.append(1)
            return super().get_node_ids()

    identify()
    connection = Counting.of(client_app, 3, settings())
    connection.tamper[1001] = lambda _: None
    monkeypatch.setattr("server_app.roster.INTRODUCTION_SECONDS", 4 * POLL_SECONDS)
    assert len(roster_of(connection).wait_for(2, timeout=20 * POLL_SECONDS)) == 2
    # A pause follows each look, so that the bound limits their number.
    assert 1 < len(looks) <= 6
