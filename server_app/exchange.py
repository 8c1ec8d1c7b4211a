"""Send messages to nodes and take the replies one at a time.

Flower's own ``send_and_receive`` returns all replies at once, so a server's memory would grow with its clients. Here
each reply is pulled, used and dropped before the next.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

POLL_SECONDS = 0.05

log = logging.getLogger("fedcomp.server")


@dataclass(frozen=True)
class Failure:
    """A node gave no usable reply.

    Attributes
    ----------
    reason
        Why, in words for the run's records.
    """

    reason: str


LATE = Failure("no reply before the deadline")


class Mailbox:
    """The messages that wait for a reply.

    Flower cannot take a message back, so what has not come by a deadline stays here until it comes or is dropped.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._node_of: dict[str, int] = {}
        self.unsent: dict[int, Failure] = {}

    @property
    def waiting(self) -> set[int]:
        """The nodes whose reply has not been taken."""
        return set(self._node_of.values())

    def send(self, messages: Mapping[int, Message]) -> None:
        """Push one message a node; those that Flower refuses are in ``unsent`` afterwards."""
        identifiers = list(self._grid.push_messages(messages.values()))
        if len(identifiers) != len(messages):
            # Without a one-to-one answer nobody knows whose messages were lost.
            reason = Failure(f"only {len(identifiers)} of {len(messages)} messages could be sent")
            self.unsent.update(dict.fromkeys(messages, reason))
            return
        for node, identifier in zip(messages, identifiers, strict=True):
            # Flower types these as str and has None for a message that it did not accept.
            if identifier:
                self._node_of[identifier] = node
            else:
                self.unsent[node] = Failure("Flower did not accept the message")

    def replies(self, *, deadline: float, in_order: bool = True) -> Iterator[tuple[int, Message | Failure]]:
        """Yield (node, reply) until all have come or the deadline has passed.

        Parameters
        ----------
        deadline
            On the clock of ``time.monotonic``. Every message is looked for at least once.
        in_order
            Wait for the nodes in the order in which they were asked, so that a sum over replies is rounded the same
            way each time; else yield each reply as it comes.
        """
        while self.unsent:
            yield self.unsent.popitem()
        if in_order:
            for identifier in list(self._node_of):
                while (reply := self._pull(identifier)) is None and time.monotonic() < deadline:
                    time.sleep(POLL_SECONDS)
                if reply is not None:
                    yield self._node_of.pop(identifier), reply
            return
        while self._node_of:
            for identifier in list(self._node_of):
                reply = self._pull(identifier)
                if reply is not None:
                    yield self._node_of.pop(identifier), reply
            if time.monotonic() >= deadline:
                return
            time.sleep(POLL_SECONDS)

    def drop(self, nodes: set[int]) -> None:
        """Wait no longer for these nodes' replies."""
        self._node_of = {identifier: node for identifier, node in self._node_of.items() if node not in nodes}

    def _pull(self, identifier: str) -> Message | Failure | None:
        found: Message | None = None
        for reply in self._grid.pull_messages([identifier]):
            # Of a node that was killed Flower itself replies, with another source: only this field tells whose it is.
            if reply.metadata.reply_to_message_id != identifier:
                log.warning("a reply to message %s was not asked for: ignored", reply.metadata.reply_to_message_id)
            elif found is not None:
                log.warning("node %d replied twice: the second is ignored", self._node_of[identifier])
            else:
                found = reply
        if found is not None and found.has_error():
            return Failure(f"client error {found.error.code}: {_last_line(found.error.reason)}")
        return found


def exchange(
    grid: Grid, messages: Mapping[int, Message], *, deadline: float
) -> Iterator[tuple[int, Message | Failure]]:
    """Push one message a node and yield (node, reply) in the order of ``messages``; what is missing is a Failure."""
    mailbox = Mailbox(grid)
    mailbox.send(messages)
    yield from mailbox.replies(deadline=deadline)
    yield from ((node, LATE) for node in messages if node in mailbox.waiting)


def _last_line(reason: str | None) -> str:
    """Return the end of a traceback, which says what went wrong."""
    lines = [line.strip() for line in (reason or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
