from __future__ import annotations

import time

import pytest

from client_app.app import app as client_app
from fedcomp.errors import ConfigError
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
