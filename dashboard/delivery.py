"""Bringing spooled events to a dashboard, in a thread of its own that nobody waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

import httpx
from pydantic import ValidationError

from dashboard.ingest import PATH, IngestReply
from dashboard.spool import Pending, Spool, spools
from fedcomp.errors import FedcompError

log = logging.getLogger("fedcomp.dashboard")

MOST_EVENTS = 200
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
_TIMEOUT = httpx.Timeout(20.0, connect=3.0)
_STATUS_TOO_LARGE = 413
_ENDING = '"kind":"finish-run"'


class DeliveryFailed(FedcompError):
    """A dashboard could not be told; what it was to be told is kept. The message says how it answered."""


class Delivery:
    """Delivers all spools in a folder, each in order: at once where it can, else with pauses of up to a minute.

    What waits is also what earlier processes left. Safe to use from several threads and processes.

    Parameters
    ----------
    root
        The folder of the spools.
    url
        Address of the dashboard, with its path prefix if it has one.
    token
        Bearer token with the scope ``write``; None sends none.
    """

    def __init__(self, root: Path, url: str, token: str | None) -> None:
        self._root = root
        self._url = url
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(headers=headers, timeout=_TIMEOUT)
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._stops: dict[str, int] = {}
        self._most_events = MOST_EVENTS
        self._thread = threading.Thread(target=self._run, name="fedcomp-delivery", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Say that there is something to deliver."""
        self._wake.set()

    def stop_requested(self, run_id: str, since: int) -> bool:
        """Return whether the dashboard said, when told of more than the first `since` bytes, that the run is to end."""
        return self._stops.get(run_id, 0) > since

    def close(self, seconds: float = 5.0) -> None:
        """End the thread after one more attempt, or after so many seconds; what is left stays in the spools."""
        self._closing.set()
        self._wake.set()
        self._thread.join(seconds)
        if not self._thread.is_alive():
            self._client.close()

    def _run(self) -> None:
        pause, told = FIRST_PAUSE_SECONDS, ""
        while True:
            last = self._closing.is_set()
            self._wake.clear()
            problem = self._deliver_all()
            if problem and problem != told:
                log.warning("dashboard: %s; records are kept in %s and delivered later", problem, self._root)
            elif told and not problem:
                log.info("dashboard: %s has all records again", self._url)
            told = problem
            if last:
                return
            if problem:
                self._closing.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
            else:
                pause = FIRST_PAUSE_SECONDS
                self._wake.wait(LONGEST_PAUSE_SECONDS)

    def _deliver_all(self) -> str:
        """Deliver what there is; return what is in the way, or nothing."""
        problem = ""
        for spool in spools(self._root):
            try:
                with spool.delivering() as mine:
                    while mine and self._deliver_some(spool):
                        pass
            except httpx.TransportError as error:
                # Nothing else would get there now.
                return f"{self._url} cannot be reached ({type(error).__name__}: {error})"
            except (DeliveryFailed, OSError) as error:
                # Another run's records may still get through.
                problem = str(error)
        return problem

    def _deliver_some(self, spool: Spool) -> bool:
        """Deliver a batch; return whether there may be more."""
        batch = spool.pending(self._most_events)
        if not batch.lines:
            return False
        reply = self._post(batch.lines)
        if reply is None:
            return True
        for refusal in reply.refused:
            log.warning("dashboard: %s refused a record of run %s: %s", self._url, spool.run_id, refusal.reason)
        spool.confirm(batch.end)
        if spool.run_id in reply.stop_requested:
            self._stops[spool.run_id] = batch.end
        if _ends(batch) and spool.is_empty():
            spool.forget()
            self._stops.pop(spool.run_id, None)  # offsets begin anew
            return False
        return True

    def _post(self, lines: Sequence[str]) -> IngestReply | None:
        """Send lines, which are JSON already; None: the batch was too large, the next one will be smaller."""
        body = f'{{"events":[{",".join(lines)}]}}'
        answer = self._client.post(self._url + PATH, content=body, headers={"Content-Type": "application/json"})
        if answer.status_code == _STATUS_TOO_LARGE and self._most_events > 1:
            self._most_events = 1
            return None
        if not answer.is_success:
            hint = "; see FEDCOMP_DASHBOARD_TOKEN" if answer.status_code in (401, 403) else ""
            raise DeliveryFailed(f"{self._url} answered {answer.status_code} {answer.text[:200]!r}{hint}")
        try:
            return IngestReply.model_validate_json(answer.content)
        except ValidationError:
            raise DeliveryFailed(
                f"{self._url} does not answer like a fedcomp dashboard: {answer.text[:200]!r}"
            ) from None


def _ends(batch: Pending) -> bool:
    return _ENDING in batch.lines[-1]
