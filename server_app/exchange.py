"""Send messages to nodes and take the replies one at a time.

Flower's own ``send_and_receive`` returns all replies at once, so a server's memory would grow with its clients. Here
each reply is pulled, used and dropped before the next, in the order of the messages: a sum over replies thus has the
same rounding in every repetition.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from flwr.app import Message
from flwr.serverapp import Grid

POLL_SECONDS = 0.05


@dataclass(frozen=True)
class Failure:
    """A node gave no usable reply.

    Attributes
    ----------
    reason
        Why, in words for the run's records.
    """

    reason: str


def exchange(
    grid: Grid, messages: Mapping[int, Message], *, deadline: float
) -> Iterator[tuple[int, Message | Failure]]:
    """Push one message a node and yield (node, reply) in the order of ``messages``.

    Parameters
    ----------
    grid
        Flower's connection to the nodes.
    messages
        Node id to message.
    deadline
        On the clock of ``time.monotonic``; what has not come by then is a Failure.
    """
    message_ids = list(grid.push_messages(messages.values()))
    if len(message_ids) != len(messages):
        # Without a one-to-one answer nobody knows whose messages were lost.
        for node in messages:
            yield node, Failure(f"only {len(message_ids)} of {len(messages)} messages could be sent")
        return
    for node, message_id in zip(messages, message_ids, strict=True):
        yield node, _await_reply(grid, message_id, deadline)


def _await_reply(grid: Grid, message_id: str, deadline: float) -> Message | Failure:
    while True:
        for reply in grid.pull_messages([message_id]):
            if reply.has_error():
                return Failure(f"client error {reply.error.code}: {_last_line(reply.error.reason)}")
            return reply
        if time.monotonic() > deadline:
            return Failure("no reply before the deadline")
        time.sleep(POLL_SECONDS)


def _last_line(reason: str | None) -> str:
    """Return the end of a traceback, which says what went wrong."""
    lines = [line.strip() for line in (reason or "").splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"
