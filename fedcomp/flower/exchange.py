"""Send messages through a Grid and take the replies one at a time, in the order of the messages."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from flwr.app import Message
from flwr.serverapp import Grid

POLL_SECONDS = 0.05


def exchange(grid: Grid, messages: Sequence[Message], *, timeout: float | None) -> Iterator[tuple[int, Message | str]]:
    """Push all messages, then yield each one's index and reply, or in words why there is none.

    Parameters
    ----------
    grid
        Flower's connection to the nodes.
    messages
        One a node.
    timeout
        Seconds from now until missing replies are given up; None waits for all.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    returned = list(grid.push_messages(messages))
    if len(returned) == len(messages):
        sent: list[str | None] = list(returned)
    else:
        # Some grids leave out what could not be sent; all note on a message the id that they gave it.
        known = set(returned)
        sent = [item.metadata.message_id if item.metadata.message_id in known else None for item in messages]
    for index, message_id in enumerate(sent):
        yield index, _await_reply(grid, message_id, deadline) if message_id else "the message could not be sent"


def _await_reply(grid: Grid, message_id: str, deadline: float | None) -> Message | str:
    while True:
        for reply in grid.pull_messages([message_id]):
            # A dead node's error reply has another node's id, so what counts is what it replies to.
            if reply.metadata.reply_to_message_id == message_id:
                return reply
        if deadline is not None and time.monotonic() >= deadline:
            return "no reply before the timeout"
        time.sleep(POLL_SECONDS)
