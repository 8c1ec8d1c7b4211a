"""A Flower Grid that calls a ClientApp in this process: a round without ray in a fraction of a second.

Messages go through Flower's own serialization both ways, so what a test sees is what would travel.
"""

from __future__ import annotations

import traceback
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from flwr.supercore.run import Run

from fedcomp.flower.local_grid import through_the_wire

Value = str | int | float | bool
Tamper = Callable[[Message], Message | None]


@dataclass
class InProcessGrid(Grid):
    """Nodes 1…n, each with partition id node - 1.

    Attributes
    ----------
    client_app
        Called for every message.
    nodes
        Node id to node config.
    run_config
        What every node's context holds.
    tamper
        Node id to a function that changes the reply, or drops it by returning None.
    """

    client_app: ClientApp
    nodes: Mapping[int, Mapping[str, Value]]
    run_config: Mapping[str, Value]
    tamper: dict[int, Tamper] = field(default_factory=dict)
    pushed: list[Message] = field(default_factory=list)
    bytes_back: int = 0
    _replies: dict[str, Message] = field(default_factory=dict)

    @classmethod
    def of(cls, client_app: ClientApp, clients: int, run_config: Mapping[str, Value]) -> InProcessGrid:
        nodes = {1000 + i: {"partition-id": i, "num-partitions": clients} for i in range(clients)}
        return cls(client_app, nodes, run_config)

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        identifiers = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = str(uuid.uuid4())
            self.pushed.append(message)
            reply = self._call(message)
            node = message.metadata.dst_node_id
            if node in self.tamper:
                tampered = self.tamper[node](reply)
                if tampered is None:
                    identifiers.append(message.metadata.message_id)
                    continue
                reply = tampered
                # A SuperLink knows which message a reply answers, whatever it says.
                reply.metadata.__dict__["_reply_to_message_id"] = message.metadata.message_id
            self._replies[message.metadata.message_id] = reply
            identifiers.append(message.metadata.message_id)
        return identifiers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(identifier) for identifier in message_ids if identifier in self._replies]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))

    def set_run(self, run: Run) -> None:
        raise NotImplementedError

    @property
    def run(self) -> Run:
        raise NotImplementedError

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        raise NotImplementedError

    def _call(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        context = Context(
            run_id=1,
            node_id=node,
            node_config=dict(self.nodes[node]),
            state=RecordDict(),
            run_config=dict(self.run_config),
        )
        arrived = through_the_wire(message)
        try:
            reply = self.client_app(arrived, context)
        except Exception:  # noqa: BLE001 - as a SuperNode does: any failure of a ClientApp becomes an error reply
            return Message(Error(code=2, reason=traceback.format_exc()), reply_to=message)
        back = through_the_wire(reply)
        self.bytes_back += sum(len(item.deflate()) for item in get_all_nested_objects(reply).values())
        return back
