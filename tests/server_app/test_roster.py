from __future__ import annotations

import pytest

from client_app.app import app as client_app
from server_app.roster import Client, Roster, TooFewClients
from server_app.rounds import choose_cohort
from tests.support.in_process_grid import InProcessGrid
from tests.support.runs import identify, settings


def grid(clients: int = 3) -> InProcessGrid:
    identify()
    return InProcessGrid.of(client_app, clients, settings())


def test_clients_go_by_partition_not_by_node() -> None:
    found = Roster(grid()).wait_for(3, timeout=5)
    assert [(client.name, client.client_id, client.node_id) for client in found] == [
        ("client-0", 0, 1000),
        ("client-1", 1, 1001),
        ("client-2", 2, 1002),
    ]
    assert found[0].device == "cpu"
    assert found[0].version


def test_a_client_is_asked_once() -> None:
    connection = grid()
    roster = Roster(connection)
    roster.wait_for(3, timeout=5)
    roster.wait_for(3, timeout=5)
    assert len(connection.pushed) == 3


def test_named_sites_have_ids_of_their_own() -> None:
    connection = grid(2)
    connection.nodes = {
        7: {"partition-id": 0, "num-partitions": 2, "site": "hospital"},
        8: {"partition-id": 1, "num-partitions": 2, "site": "bank"},
    }
    found = {client.name: client.client_id for client in Roster(connection).wait_for(2, timeout=5)}
    assert set(found) == {"hospital", "bank"}
    assert all(identifier > 2**32 for identifier in found.values())


def test_a_client_that_comes_back_under_another_node_id_is_the_same() -> None:
    connection = grid(2)
    roster = Roster(connection)
    roster.wait_for(2, timeout=5)
    connection.nodes = {1000: connection.nodes[1000], 55: connection.nodes[1001]}
    assert [(client.name, client.node_id) for client in roster.wait_for(2, timeout=5)] == [
        ("client-0", 1000),
        ("client-1", 55),
    ]


def test_a_node_that_cannot_say_who_it_is_is_left_out() -> None:
    connection = grid(3)
    connection.nodes = {**connection.nodes, 1001: {"partition-id": 9, "num-partitions": 3}}
    assert [client.name for client in Roster(connection).wait_for(2, timeout=5)] == ["client-0", "client-2"]


def test_waiting_is_bounded() -> None:
    with pytest.raises(TooFewClients, match="3 clients answered within 0 s, min-clients is 4"):
        Roster(grid()).wait_for(4, timeout=0)


def test_cohorts_are_drawn_by_round_and_do_not_depend_on_order() -> None:
    clients = [Client(f"client-{index}", index, 90 - index, "cpu", "1") for index in range(10)]
    first = choose_cohort(clients, 4, secret=b"secret", round_index=1)
    assert first == choose_cohort(clients[::-1], 4, secret=b"secret", round_index=1)
    assert len({client.name for client in first}) == 4
    assert first == sorted(first, key=lambda client: client.client_id)
    others = [choose_cohort(clients, 4, secret=b"secret", round_index=index) for index in range(2, 30)]
    assert any(other != first for other in others)
    # Each of 10 clients is in a cohort of 4 with probability 0.4: being in none of 29 happens once in 3 million.
    assert {client.name for cohort in (first, *others) for client in cohort} == {client.name for client in clients}


@pytest.mark.parametrize("count", [0, 10, 99])
def test_everybody_takes_part_unless_told_otherwise(count: int) -> None:
    clients = [Client(f"client-{index}", index, index, "cpu", "1") for index in (3, 1, 2)]
    cohort = choose_cohort(clients, count, secret=b"secret", round_index=1)
    assert [client.client_id for client in cohort] == [1, 2, 3]
