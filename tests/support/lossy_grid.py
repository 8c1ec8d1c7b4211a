"""An in-process grid whose clients are slow, silent or gone as a test wants."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from flwr.app import Message, MessageType

from client_app.app import app as client_app
from tests.support.in_process_grid import InProcessGrid


@dataclass
class LossyGrid(InProcessGrid):
    """Holds back replies to training until a number of pulls has passed.

    Attributes
    ----------
    delay
        Maps (node, how often it was asked to train) to the pulls during which its reply is held back; None drops it.
    """

    delay: Callable[[int, int], int | None] = lambda _node, _time: 0
    _held: dict[str, int] = field(default_factory=dict)
    _times: dict[int, int] = field(default_factory=dict)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        sent = list(messages)
        identifiers = list(super().push_messages(sent))
        for message, identifier in zip(sent, identifiers, strict=True):
            if message.metadata.message_type != MessageType.TRAIN:
                continue
            node = message.metadata.dst_node_id
            self._times[node] = self._times.get(node, 0) + 1
            pulls = self.delay(node, self._times[node])
            if pulls is None:
                self._replies.pop(identifier, None)
            else:
                self._held[identifier] = pulls
        return identifiers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        ready = []
        for identifier in message_ids:
            if self._held.get(identifier, 0) > 0:
                self._held[identifier] -= 1
            else:
                ready.append(identifier)
        return super().pull_messages(ready)


def lossy(config: Mapping[str, str | int | float | bool], clients: int, **fields: object) -> LossyGrid:
    """Return a grid of so many clients, with fields set."""
    grid = LossyGrid(
        client_app, {1000 + i: {"partition-id": i, "num-partitions": clients} for i in range(clients)}, config
    )
    for name, value in fields.items():
        setattr(grid, name, value)
    return grid
