"""Signs of life of a run's writer, in a thread of its own: a round may take longer than anybody would wait for one."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sqlalchemy.exc import SQLAlchemyError

from fedcomp.errors import FedcompError

if TYPE_CHECKING:
    from dashboard.store import RunStore  # which gives this module's function to writers

EVERY_SECONDS = 30.0

log = logging.getLogger("fedcomp.dashboard")


@contextmanager
def heartbeat(store: RunStore, run_id: Callable[[], str], *, every: float = EVERY_SECONDS) -> Iterator[None]:
    """Note a sign of life of the run that `run_id` gives (none where it gives '') while the ``with`` block lasts.

    One that cannot be noted is left out: it is not worth a run.
    """
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(every):
            try:
                if current := run_id():
                    store.beat(current)
            except (FedcompError, SQLAlchemyError) as error:
                log.debug("no heartbeat: %s", error)

    thread = threading.Thread(target=beat, name="fedcomp-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
