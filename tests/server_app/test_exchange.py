from __future__ import annotations

import time
from collections.abc import Iterable

import pytest
from flwr.app import Message, MessageType

from client_app.app import app as client_app
from fedcomp.flower.messages import ClientQuery
from server_app.exchange import Failure, Mailbox, exchange
from tests.support.in_process_grid import InProcessGrid
from tests.support.runs import identify, settings


def queries(nodes: Iterable[int]) -> dict[int, Message]:
    identify()
    return {
        node: Message(ClientQuery("a-run").to_record(), dst_node_id=node, message_type=MessageType.QUERY)
        for node in nodes
    }


class Counting(InProcessGrid):
    """Remembers how many replies were held outside the grid at once."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = list(super().pull_messages(message_ids))
        self.__dict__.setdefault("pulled", []).append(len(found))
        return found


def test_replies_come_one_at_a_time_in_the_order_asked() -> None:
    grid = Counting.of(client_app, 4, settings())
    order = [1002, 1000, 1003, 1001]
    found = list(exchange(grid, queries(order), deadline=time.monotonic() + 5))
    assert [node for node, _ in found] == order
    assert all(isinstance(reply, Message) and reply.metadata.src_node_id == node for node, reply in found)
    assert max(grid.__dict__["pulled"]) == 1


def test_a_missing_reply_is_a_failure_at_the_deadline() -> None:
    grid = InProcessGrid.of(client_app, 2, settings())
    grid.tamper[1000] = lambda _: None
    started = time.monotonic()
    found = dict(exchange(grid, queries([1000, 1001]), deadline=started + 0.3))
    assert time.monotonic() - started < 3
    assert found[1000] == Failure("no reply before the deadline")
    assert isinstance(found[1001], Message)


def test_an_error_reply_carries_the_end_of_its_traceback() -> None:
    grid = InProcessGrid.of(client_app, 1, settings())
    grid.nodes = {1000: {}}
    (found,) = exchange(grid, queries([1000]), deadline=time.monotonic() + 5)
    assert isinstance(found[1], Failure)
    assert found[1].reason.startswith(
        "client error 2: fedcomp.errors.ConfigError: node config is {}; start the SuperNode"
    )


def test_messages_that_cannot_be_sent_are_failures() -> None:
    class Refusing(InProcessGrid):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            return list(super().push_messages(messages))[:1]

    grid = Refusing.of(client_app, 2, settings())
    found = dict(exchange(grid, queries([1000, 1001]), deadline=time.monotonic() + 5))
    assert set(found.values()) == {Failure("only 1 of 2 messages could be sent")}


def test_a_mailbox_takes_replies_as_they_come() -> None:
    grid = InProcessGrid.of(client_app, 3, settings())
    grid.tamper[1000] = lambda _: None
    mailbox = Mailbox(grid)
    mailbox.send(queries([1000, 1001, 1002]))
    assert [node for node, _ in mailbox.replies(deadline=0.0, in_order=False)] == [1001, 1002]
    assert mailbox.waiting == {1000}
    mailbox.drop({1000})
    assert mailbox.waiting == set()


def test_messages_that_flower_did_not_accept_are_failures_of_their_own() -> None:
    class Partly(InProcessGrid):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            return [None if i == 1 else item for i, item in enumerate(super().push_messages(messages))]  # type: ignore[misc]

    grid = Partly.of(client_app, 3, settings())
    found = dict(exchange(grid, queries([1000, 1001, 1002]), deadline=time.monotonic() + 5))
    assert {node for node, reply in found.items() if isinstance(reply, Failure)} == {1001}


def test_duplicate_and_foreign_replies_are_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    class Echoing(InProcessGrid):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            found = list(super().pull_messages(message_ids))
            return [*self.__dict__.setdefault("before", []), *found, *found] if found else []

    grid = Echoing.of(client_app, 2, settings())
    grid.__dict__["before"] = []
    mailbox = Mailbox(grid)
    mailbox.send(queries([1000, 1001]))
    first = grid.pushed[0]
    grid.__dict__["before"] = [grid._replies[first.metadata.message_id]]
    with caplog.at_level("WARNING", logger="fedcomp.server"):
        found = list(mailbox.replies(deadline=time.monotonic() + 5))
    assert [node for node, _ in found] == [1000, 1001]
    assert [reply.metadata.src_node_id for _, reply in found if isinstance(reply, Message)] == [1000, 1001]
    assert "node 1001 replied twice" in caplog.text
    assert "was not asked for: ignored" in caplog.text
