from __future__ import annotations

from collections.abc import Iterable

import pytest
from flwr.app import ConfigRecord, Message, RecordDict

from fedcomp.flower.exchange import exchange
from tests.support.flower_app import identify, nodes
from tests.support.in_process_grid import InProcessGrid


class Slow(InProcessGrid):
    """Answers a pull only when asked often enough, and notes what was asked for."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        asked = list(message_ids)
        log: list[list[str]] = self.__dict__.setdefault("log", [])
        log.append(asked)
        return list(super().pull_messages(asked)) if log.count(asked) > 1 else []


def queries(order: list[int]) -> list[Message]:
    identify()
    return [Message(RecordDict({"config": ConfigRecord()}), node, "evaluate") for node in order]


@pytest.mark.parametrize("timeout", [None, 60])
def test_replies_come_one_at_a_time_in_order_and_are_waited_for(timeout: float | None) -> None:
    plain = nodes(3)
    grid = Slow(plain.client_app, plain.nodes, {})
    found = list(exchange(grid, queries([1002, 1000, 1001]), timeout=timeout))
    assert [index for index, _ in found] == [0, 1, 2]
    assert [reply.metadata.src_node_id for _, reply in found if isinstance(reply, Message)] == [1002, 1000, 1001]
    assert all(len(asked) == 1 for asked in grid.__dict__["log"])


def test_a_missing_reply_costs_no_other_reply() -> None:
    grid = nodes(4)
    grid.tamper |= {1000: lambda _: None, 1002: lambda _: None}
    found = dict(exchange(grid, queries([1000, 1001, 1002, 1003]), timeout=0.1))
    assert found[0] == found[2] == "no reply before the timeout"
    assert isinstance(found[1], Message)
    assert isinstance(found[3], Message)


def test_without_time_what_is_there_is_taken() -> None:
    assert all(isinstance(reply, Message) for _, reply in exchange(nodes(2), queries([1000, 1001]), timeout=0))


class Lossy(InProcessGrid):
    """Cannot send to node 1001: ``"none"`` says so in place, ``"short"`` leaves it out."""

    mode = "none"

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        listed = list(messages)
        sent = iter(list(super().push_messages([item for item in listed if item.metadata.dst_node_id != 1001])))
        ids = ["" if item.metadata.dst_node_id == 1001 else next(sent) for item in listed]
        return ids if self.mode == "none" else [item for item in ids if item]


@pytest.mark.parametrize("mode", ["none", "short"])
def test_only_what_could_not_be_sent_is_missing(mode: str) -> None:
    plain = nodes(3)
    grid = Lossy(plain.client_app, plain.nodes, {})
    grid.mode = mode
    found = dict(exchange(grid, queries([1000, 1001, 1002]), timeout=1))
    assert found[1] == "the message could not be sent"
    for index, node in ((0, 1000), (2, 1002)):
        reply = found[index]
        assert isinstance(reply, Message)
        assert reply.metadata.src_node_id == node


class Confused(InProcessGrid):
    """Hands out the reply to another message first."""

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        wrong = Message(RecordDict(), reply_to=self.pushed[0])
        wrong.metadata.__dict__["_reply_to_message_id"] = "another"
        return [wrong, *super().pull_messages(message_ids)]


def test_a_reply_is_known_by_what_it_replies_to() -> None:
    plain = nodes(2)
    grid = Confused(plain.client_app, plain.nodes, {})
    for index, reply in exchange(grid, queries([1000, 1001]), timeout=1):
        assert isinstance(reply, Message)
        assert reply.metadata.src_node_id == 1000 + index
