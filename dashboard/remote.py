"""A run store whose writes also reach a dashboard on another machine.

The local database stays the truth: a run is resumed from it, and nothing waits for the network. Each write is first
done there, then added to a spool (:mod:`dashboard.spool`) that a thread delivers (:mod:`dashboard.delivery`). So a
dashboard that cannot be reached never slows or fails a round; it is told later, in order, also by the next server app.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import httpx
from pydantic import JsonValue

from dashboard.delivery import Delivery
from dashboard.ingest import (
    Beat,
    CreateRun,
    DeleteRounds,
    Event,
    FinishRun,
    RecordRound,
    SetCheckpoint,
    SetStopReason,
    StartRun,
)
from dashboard.schemas import ClientResult, FinalStatus, RoundResult, RunStart
from dashboard.spool import Spool
from dashboard.store import RunStore
from fedcomp.errors import ConfigError
from fedcomp.home import database_url, home

TOKEN_VARIABLE = "FEDCOMP_DASHBOARD_TOKEN"  # noqa: S105 - where it is, not what
TOKEN_FILE = "dashboard-token"  # noqa: S105 - where it is, not what
_LOOPBACK = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger("fedcomp.dashboard")


class RemoteStore(RunStore):
    """Writes runs to the local database and, through a spool, to a dashboard.

    Parameters
    ----------
    url
        The dashboard's address, ``https://host[:port][/prefix]``; ``http`` is for one on this machine.
    local_url
        The local database; by default that of FEDCOMP_HOME.
    token
        Bearer token of the scope ``write``; by default from the environment (FEDCOMP_DASHBOARD_TOKEN) or the file
        ``dashboard-token`` in FEDCOMP_HOME.

    Raises
    ------
    ConfigError
        The address or the token cannot be used.
    UnknownRevision
        A newer fedcomp wrote the local database.
    """

    def __init__(self, url: str, *, local_url: str | None = None, token: str | None = None) -> None:
        address = _checked(url)
        token = _configured_token() if token is None else token
        super().__init__(database_url() if local_url is None else local_url)
        self._root = home() / "spool"
        self._starts: dict[str, int] = {}
        self._delivery = Delivery(self._root, address, token)

    def create_run(self, start: RunStart) -> str:
        """Add a run with status ``queued`` and return its new id."""
        run_id = super().create_run(start)
        self._tell(CreateRun(run_id=run_id, start=start))
        return run_id

    def start_run(
        self,
        run_id: str,
        *,
        flower_run_id: str | None = None,
        num_rounds: int | None = None,
        config: Mapping[str, JsonValue] | None = None,
        at: datetime | None = None,
    ) -> None:
        """Set a run to ``running``, see :meth:`RunStore.start_run`; one the dashboard may not know is told whole."""
        at = datetime.now(UTC) if at is None else at
        super().start_run(run_id, flower_run_id=flower_run_id, num_rounds=num_rounds, config=config, at=at)
        if not self._spool(run_id).exists():
            self._tell_whole(run_id)
        event = StartRun(run_id=run_id, at=at, flower_run_id=flower_run_id, num_rounds=num_rounds, config=config)
        # What the dashboard says of stopping before it knows of this start is about an earlier one.
        self._starts[run_id] = self._tell(event) - 1

    def record_round(self, run_id: str, result: RoundResult, clients: Sequence[ClientResult]) -> None:
        """Store one round and its clients; see :meth:`RunStore.record_round`."""
        super().record_round(run_id, result, clients)
        self._tell(RecordRound(run_id=run_id, result=result, clients=tuple(clients)))

    def delete_rounds_after(self, run_id: str, round_index: int) -> int:
        """Delete a run's rounds above `round_index`, with their clients, and return how many."""
        deleted = super().delete_rounds_after(run_id, round_index)
        if self._spool(run_id).exists():
            self._tell(DeleteRounds(run_id=run_id, after=round_index))
        return deleted

    def set_checkpoint(self, run_id: str, path: str) -> None:
        """Note where a run's latest checkpoint lies."""
        super().set_checkpoint(run_id, path)
        self._tell(SetCheckpoint(run_id=run_id, path=path))

    def set_stop_reason(self, run_id: str, reason: str) -> None:
        """Note why a run ended before its last round."""
        super().set_stop_reason(run_id, reason)
        self._tell(SetStopReason(run_id=run_id, reason=reason))

    def beat(self, run_id: str) -> None:
        """Note a sign of life; one that would wait behind other events is not worth telling."""
        super().beat(run_id)
        if self._spool(run_id).is_empty():
            self._tell(Beat(run_id=run_id))

    def finish_run(
        self, run_id: str, status: FinalStatus, error: str | None = None, *, at: datetime | None = None
    ) -> None:
        """Set a run's final status, its error and its finish time."""
        at = datetime.now(UTC) if at is None else at
        super().finish_run(run_id, status, error, at=at)
        self._tell(FinishRun(run_id=run_id, status=status, error=error, at=at))

    def stop_requested(self, run_id: str) -> bool:
        """Return whether a run is to end after its round, said here or, the last time it answered, by the dashboard."""
        if super().stop_requested(run_id):
            return True
        if not self._delivery.stop_requested(run_id, self._starts.get(run_id, 0)):
            return False
        self.request_stop(run_id)
        return True

    def close(self) -> None:
        """Close every connection, after at most 5 s for what waits to be delivered; may be called twice."""
        if hasattr(self, "_delivery"):  # not yet where opening the local database failed
            self._delivery.close()
        super().close()

    def _spool(self, run_id: str) -> Spool:
        return Spool(self._root / run_id)

    def _tell(self, event: Event) -> int:
        """Spool an event and return where it ends; a full disk is not worth a round."""
        try:
            end = self._spool(event.run_id).append(event.model_dump_json())
        except OSError as error:
            log.warning("dashboard: a record of run %s is lost to it, not to this machine: %s", event.run_id, error)
            return 0
        self._delivery.wake()
        return end

    def _tell_whole(self, run_id: str) -> None:
        run = self.find_run(run_id)
        self._tell(
            CreateRun(run_id=run_id, start=RunStart(**{name: getattr(run, name) for name in RunStart.model_fields}))
        )
        for item in self.rounds_after(run_id):
            result = RoundResult(**{name: getattr(item, name) for name in RoundResult.model_fields})
            self._tell(RecordRound(run_id=run_id, result=result, clients=item.client_results))
        if run.checkpoint_path is not None:
            self._tell(SetCheckpoint(run_id=run_id, path=run.checkpoint_path))


def _checked(url: str) -> str:
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ConfigError(f"dashboard address {url!r}: {error}; give https://host[:port][/prefix]") from None
    if parsed.userinfo:
        raise ConfigError(
            f"dashboard address of host {parsed.host!r} holds a password: give a token by {TOKEN_VARIABLE}"
        )
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise ConfigError(f"dashboard address {url!r}: give https://host[:port][/prefix]")
    if parsed.scheme == "http" and parsed.host not in _LOOPBACK:
        log.warning("dashboard: %s is not encrypted: anybody on the way can read the token; use https", url)
    return url.rstrip("/")


def _configured_token() -> str | None:
    token = os.environ.get(TOKEN_VARIABLE)
    source = TOKEN_VARIABLE
    if token is None:
        path: Path = home() / TOKEN_FILE
        source = str(path)
        try:
            token = path.read_text()
        except FileNotFoundError:
            return None
    token = token.strip()
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{source} holds no token: a token is one line of letters, digits, '-' and '_'")
    return token or None
