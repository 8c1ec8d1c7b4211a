"""Send messages through a Grid and take the replies one at a time.

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
_WRAPPING = "Exception ClientAppException occurred. Message: "

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


class Mailbox:
    """The messages that wait for a reply, by a number of the sender's choice, such as the node's id.

    Flower cannot take a message back, so what has not come by a deadline stays here until it comes or is dropped.
    """

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        self._key_of: dict[str, int] = {}
        self._unsent: list[int] = []

    @property
    def waiting(self) -> set[int]:
        """The numbers of the messages whose reply has not been taken."""
        return set(self._key_of.values())

    def send(self, messages: Mapping[int, Message]) -> None:
        """Push messages; those that Flower refuses are yielded as failures by ``replies``."""
        returned = list(self._grid.push_messages(messages.values()))
        if len(returned) == len(messages):
            identifiers: list[str | None] = list(returned)
        else:
            # Some grids leave out what could not be sent; all note on a message the id that they gave it.
            known = set(returned)
            noted = [message.metadata.message_id for message in messages.values()]
            identifiers = [identifier if identifier in known else None for identifier in noted]
        for key, identifier in zip(messages, identifiers, strict=True):
            # Flower types these as str and has None for a message that it did not accept.
            if identifier:
                self._key_of[identifier] = key
            else:
                self._unsent.append(key)

    def replies(self, *, deadline: float, in_order: bool = True) -> Iterator[tuple[int, Message | Failure]]:
        """Yield (number, reply) until all have come or the deadline has passed; error replies are replies.

        Parameters
        ----------
        deadline
            On the clock of ``time.monotonic``. Every message is looked for at least once.
        in_order
            Wait for replies in the order in which the messages were sent, so that a sum over them is rounded the same
            way each time; else yield each as it comes.
        """
        while self._unsent:
            yield self._unsent.pop(0), Failure("the message could not be sent")
        if in_order:
            for identifier in list(self._key_of):
                while (reply := self._pull(identifier)) is None and time.monotonic() < deadline:
                    time.sleep(POLL_SECONDS)
                if reply is not None:
                    yield self._key_of.pop(identifier), reply
            return
        while self._key_of:
            for identifier in list(self._key_of):
                reply = self._pull(identifier)
                if reply is not None:
                    yield self._key_of.pop(identifier), reply
            if time.monotonic() >= deadline:
                return
            time.sleep(POLL_SECONDS)

    def drop(self, keys: set[int]) -> None:
        """Wait no longer for these replies."""
        self._key_of = {identifier: key for identifier, key in self._key_of.items() if key not in keys}

    def _pull(self, identifier: str) -> Message | None:
        found: Message | None = None
        for reply in self._grid.pull_messages([identifier]):
            # Of a node that was killed Flower itself replies, with another source: only this field tells whose it is.
            if reply.metadata.reply_to_message_id != identifier:
                log.warning("a reply to message %r was not asked for: ignored", reply.metadata.reply_to_message_id)
            elif found is not None:
                log.warning("node %d replied twice: the second is ignored", reply.metadata.src_node_id)
            else:
                found = reply
        return found


def failure_of(reply: Message | Failure) -> str | None:
    """Return why a reply holds nothing to use, or None when it has content."""
    if isinstance(reply, Failure):
        return reply.reason
    if reply.has_error():
        return f"client error {reply.error.code}: {_last_line(reply.error.reason)}"
    return None if reply.has_content() else "reply has neither content nor error"


def _last_line(reason: str | None) -> str:
    """Return the end of a traceback, which says what went wrong."""
    lines = [line.strip() for line in (reason or "").splitlines() if line.strip()]
    if not lines:
        return "no reason given"
    # A simulation wraps a client's words in the name of an exception of its own.
    _, wrapped, words = lines[-1].partition(_WRAPPING)
    return words.removesuffix("'>") if wrapped else lines[-1]
