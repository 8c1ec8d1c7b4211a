"""A Grid whose clients are called in this process, one after the other.

Messages go through Flower's own serialization both ways, so that server and clients see what they would see of one
another over a network, and all counts of bytes are those of a real run.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Iterable, Mapping

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_object import (
    InflatableObject,
    get_all_nested_objects,
    get_object_children_ids_from_object_content,
    get_object_type_from_object_content,
)
from flwr.supercore.inflatable.inflatable_utils import inflatable_class_registry
from flwr.supercore.run import Run

from fedcomp.config import Value
from fedcomp.errors import FedcompError

# As long on the wire as the numbers that Flower draws.
_FIRST_NODE = 2**63


class NotInProcess(FedcompError):
    """The server app asked its grid for something that only a SuperLink has."""


class LocalGrid(Grid):
    """Nodes with the partitions 0 to clients - 1, as Flower's simulation makes them.

    A client is called when its reply is first looked for, so that one reply at a time is in memory, and a server that
    waits for its replies never waits in vain. Every call gets a context of its own; ``context.state`` is kept between
    calls, unless the client failed.

    Parameters
    ----------
    client_app
        Called for every message.
    clients
        Number of nodes.
    run_config
        What every node's context holds.
    run_id
        Flower's number of the run.
    """

    def __init__(self, client_app: ClientApp, *, clients: int, run_config: Mapping[str, Value], run_id: int) -> None:
        self._client_app = client_app
        self._clients = clients
        self._run_config = dict(run_config)
        self._run_id = run_id
        self._states: dict[int, RecordDict] = {}
        self._waiting: dict[str, Message] = {}

    def get_node_ids(self) -> Iterable[int]:
        """Return all nodes; they are always connected."""
        return [_FIRST_NODE + partition for partition in range(self._clients)]

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        """Accept messages and return one id each."""
        identifiers = []
        for message in messages:
            identifier = str(uuid.uuid4())
            message.metadata.__dict__["_message_id"] = identifier
            self._waiting[identifier] = message
            identifiers.append(identifier)
        return identifiers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        """Call the clients that these messages are for and return their replies; each message is answered once."""
        return [self._call(self._waiting.pop(key)) for key in message_ids if key in self._waiting]

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        """Push and pull at once; there is nothing that ``timeout`` could end."""
        return self.pull_messages(self.push_messages(messages))

    def set_run(self, run: Run) -> None:
        """Raise: the run is the one that the grid was made for."""
        raise NotInProcess("set_run: this grid belongs to one run; use Flower's simulation for an app that needs it")

    @property
    def run(self) -> Run:
        """Raise: no SuperLink knows this run."""
        raise NotInProcess("run: no SuperLink knows this run; use Flower's simulation for an app that needs it")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str, ttl: float | None = None
    ) -> Message:
        """Return a message; Flower wants apps to build their own."""
        return Message(content, dst_node_id, message_type, ttl=ttl, group_id=group_id)

    def _call(self, message: Message) -> Message:
        node = message.metadata.dst_node_id
        context = Context(
            run_id=self._run_id,
            node_id=node,
            node_config={"partition-id": node - _FIRST_NODE, "num-partitions": self._clients},
            state=copy.deepcopy(self._states.get(node, RecordDict())),
            run_config=dict(self._run_config),
        )
        try:
            reply = self._client_app(through_the_wire(message), context)
        except Exception as error:  # noqa: BLE001 - as in a simulation: any failure of a client is an error reply
            reason = f"{type(error).__name__}: {error}"
            return Message(Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, reason), reply_to=message)
        self._states[node] = context.state
        return through_the_wire(reply)


def through_the_wire(message: Message) -> Message:
    """Return the message as its receiver has it: taken apart into Flower's objects and built from their bytes."""
    contents = {key: item.deflate() for key, item in get_all_nested_objects(message).items()}

    def inflate(object_id: str) -> InflatableObject:
        content = contents[object_id]
        children = {key: inflate(key) for key in get_object_children_ids_from_object_content(content)}
        kind = inflatable_class_registry[get_object_type_from_object_content(content)]
        return kind.inflate(content, children)

    built = inflate(message.object_id)
    if not isinstance(built, Message):
        raise TypeError(f"a message became a {type(built).__name__} on its way")
    built.metadata.__dict__["_message_id"] = message.metadata.message_id
    return built
