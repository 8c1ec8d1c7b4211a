from __future__ import annotations

import math
import time
from collections.abc import Iterable

import pytest
from flwr.app import Error, Message, MessageType, RecordDict

from client_app.app import app as client_app
from fedcomp.flower.mailbox import Failure, Mailbox, failure_of
from fedcomp.flower.messages import ClientQuery
from tests.support.in_process_grid import InProcessGrid
from tests.support.runs import identify, settings

UNSENT = Failure("the message could not be sent")


def sent(grid: InProcessGrid, nodes: Iterable[int]) -> Mailbox:
    identify()
    query = ClientQuery("a-run").to_record()
    mailbox = Mailbox(grid)
    mailbox.send({node: Message(query, dst_node_id=node, message_type=MessageType.QUERY) for node in nodes})
    return mailbox


def grid_of(clients: int, kind: type[InProcessGrid] = InProcessGrid) -> InProcessGrid:
    return kind.of(client_app, clients, settings())


def sources(found: Iterable[tuple[int, Message | Failure]]) -> list[tuple[int, int]]:
    return [(key, reply.metadata.src_node_id) for key, reply in found if isinstance(reply, Message)]


class Slow(InProcessGrid):
    """Answers a pull only when asked a second time, and notes what was asked for."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        asked = list(message_ids)
        log: list[list[str]] = self.__dict__.setdefault("log", [])
        log.append(asked)
        return list(super().pull_messages(asked)) if log.count(asked) > 1 else []


@pytest.mark.parametrize("seconds", [math.inf, 60])
@pytest.mark.parametrize("in_order", [True, False])
def test_replies_come_one_at_a_time_in_the_order_asked_and_are_waited_for(seconds: float, in_order: bool) -> None:
    grid = grid_of(4, Slow)
    order = [1002, 1000, 1003, 1001]
    mailbox = sent(grid, order)
    found = sources(mailbox.replies(deadline=time.monotonic() + seconds, in_order=in_order))
    assert found == [(node, node) for node in order]
    assert all(len(asked) == 1 for asked in grid.__dict__["log"])
    assert mailbox.waiting == set()


def test_a_missing_reply_costs_no_other_reply() -> None:
    grid = grid_of(4)
    grid.tamper |= {1000: lambda _: None, 1002: lambda _: None}
    mailbox = sent(grid, range(1000, 1004))
    started = time.monotonic()
    assert sources(mailbox.replies(deadline=started + 0.2)) == [(1001, 1001), (1003, 1003)]
    assert time.monotonic() - started < 3
    assert mailbox.waiting == {1000, 1002}


def test_without_time_what_is_there_is_taken() -> None:
    assert len(sources(sent(grid_of(3), range(1000, 1003)).replies(deadline=0.0))) == 3


def test_replies_are_taken_as_they_come_and_late_ones_stay() -> None:
    grid = grid_of(3)
    kept: list[Message] = []

    def hold(message: Message) -> None:
        kept.append(message)

    grid.tamper[1000] = hold
    mailbox = sent(grid, range(1000, 1003))
    assert sources(mailbox.replies(deadline=0.0, in_order=False)) == [(1001, 1001), (1002, 1002)]
    assert mailbox.waiting == {1000}
    late = kept[0]
    late.metadata.__dict__["_reply_to_message_id"] = grid.pushed[0].metadata.message_id
    grid._replies[grid.pushed[0].metadata.message_id] = late
    assert sources(mailbox.replies(deadline=0.0)) == [(1000, 1000)]


def test_what_is_dropped_is_not_looked_for() -> None:
    grid = grid_of(2)
    mailbox = sent(grid, [1000, 1001])
    mailbox.drop({1000})
    assert sources(mailbox.replies(deadline=0.0)) == [(1001, 1001)]


class Lossy(InProcessGrid):
    """Cannot send to node 1001: ``"none"`` says so in place, ``"short"`` leaves it out."""

    mode = "none"

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        listed = list(messages)
        passed = iter(list(super().push_messages([item for item in listed if item.metadata.dst_node_id != 1001])))
        ids = ["" if item.metadata.dst_node_id == 1001 else next(passed) for item in listed]
        return ids if self.mode == "none" else [item for item in ids if item]


@pytest.mark.parametrize("mode", ["none", "short"])
def test_only_what_could_not_be_sent_is_missing(mode: str) -> None:
    grid = grid_of(3, Lossy)
    assert isinstance(grid, Lossy)
    grid.mode = mode
    mailbox = sent(grid, [1000, 1001, 1002])
    found = dict(mailbox.replies(deadline=0.0))
    assert found[1001] == UNSENT
    assert sources(found.items()) == [(1000, 1000), (1002, 1002)]
    assert dict(mailbox.replies(deadline=0.0)) == {}


def test_duplicate_and_foreign_replies_are_not_taken(caplog: pytest.LogCaptureFixture) -> None:
    class Echoing(InProcessGrid):
        def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
            found = list(super().pull_messages(message_ids))
            return [*self.__dict__["before"], *found, *found] if found else []

    grid = grid_of(2, Echoing)
    mailbox = sent(grid, [1000, 1001])
    grid.__dict__["before"] = [grid._replies[grid.pushed[0].metadata.message_id]]
    with caplog.at_level("WARNING", logger="fedcomp.server"):
        assert sources(mailbox.replies(deadline=0.0)) == [(1000, 1000), (1001, 1001)]
    assert "node 1001 replied twice" in caplog.text
    assert "was not asked for: ignored" in caplog.text


def test_why_a_reply_is_of_no_use_is_said() -> None:
    identify()
    asked = Message(RecordDict(), dst_node_id=1, message_type=MessageType.QUERY)
    assert failure_of(Failure("why")) == "why"
    assert failure_of(Message(RecordDict(), reply_to=asked)) is None
    trace = Message(Error(2, "Traceback\n  File x\nValueError: no data\n\n"), reply_to=asked)
    assert failure_of(trace) == "client error 2: ValueError: no data"
    wrapped = "<class 'x'>:<'\nException ClientAppException occurred. Message: this client fails'>"
    assert failure_of(Message(Error(2, wrapped), reply_to=asked)) == "client error 2: this client fails"
    assert failure_of(Message(Error(7, ""), reply_to=asked)) == "client error 7: no reason given"


def test_an_error_reply_carries_the_end_of_its_traceback() -> None:
    grid = grid_of(1)
    grid.nodes = {1000: {}}
    ((_, reply),) = sent(grid, [1000]).replies(deadline=0.0)
    reason = failure_of(reply)
    assert str(reason).startswith("client error 2: fedcomp.errors.ConfigError: node config is {}; start the SuperNode")


def test_what_a_grid_noted_an_id_on_but_did_not_take_is_missing() -> None:
    class Forgetful(InProcessGrid):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            return list(super().push_messages(messages))[1:]

    found = dict(sent(grid_of(2, Forgetful), [1000, 1001]).replies(deadline=0.0))
    assert found[1000] == UNSENT
    assert sources(found.items()) == [(1001, 1001)]
