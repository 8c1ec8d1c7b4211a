"""Making the digests that are missing while a dashboard is open, in a thread of its own that nobody waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from dashboard.store import RunStore
from fedcomp.errors import FedcompError

EVERY_SECONDS = 60.0
_JOIN_SECONDS = 2.0

log = logging.getLogger("fedcomp.dashboard")


@contextmanager
def making_digests(store: RunStore, closing: threading.Event, *, every: float = EVERY_SECONDS) -> Iterator[None]:
    """Make the digests that are missing, at once and then now and again, while the ``with`` block lasts.

    Runs of earlier releases and those whose server app was killed are then compared as fast as others. It ends as soon
    as `closing` is set, which the end of the block does.
    """

    def work() -> None:
        while not closing.is_set():
            try:
                store.digest_ended(until=closing.is_set)
            except (FedcompError, SQLAlchemyError) as error:
                log.debug("no digests were made: %s", error)
            closing.wait(every)

    thread = threading.Thread(target=work, name="fedcomp-digests", daemon=True)
    thread.start()
    try:
        yield
    finally:
        closing.set()
        thread.join(_JOIN_SECONDS)
