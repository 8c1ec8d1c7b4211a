"""The run store: every run, its rounds and its clients, in one database that many processes share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from secrets import token_bytes
from types import TracebackType
from typing import Self, get_args

from pydantic import JsonValue
from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from dashboard import digests, queries
from dashboard.db import MissingDriver, UnknownRevision, create_engine_for, reader_of, upgrade
from dashboard.errors import AmbiguousRun, RunEnded, RunNotFound
from dashboard.heartbeat import heartbeat
from dashboard.models import ClientRound, Round, Run
from dashboard.run_ids import ENTROPY_BYTES, new_run_id
from dashboard.schemas import (
    BitsSource,
    ClientResult,
    FinalStatus,
    Outcome,
    RoundDetail,
    RoundResult,
    RoundStatus,
    RunDetail,
    RunStart,
    RunSummary,
)
from fedcomp.errors import ConfigError

__all__ = [
    "AmbiguousRun",
    "BitsSource",
    "ClientResult",
    "FinalStatus",
    "MissingDriver",
    "Outcome",
    "RoundDetail",
    "RoundResult",
    "RoundStatus",
    "RunDetail",
    "RunEnded",
    "RunNotFound",
    "RunStart",
    "RunStore",
    "RunSummary",
    "UnknownRevision",
    "heartbeat",
    "new_run_id",
]


class RunStore:
    """Writes and reads runs; safe to use from several threads and, on the same database, several processes.

    Each method is one transaction: a reader sees a round with all its clients or not at all, and never waits for a
    writer. Writers wait for each other, up to 30 s on SQLite; past that SQLAlchemy's ``OperationalError`` is raised.

    Parameters
    ----------
    url
        Database URL, such as :func:`fedcomp.home.database_url` gives. The database is created and migrated as needed.

    Raises
    ------
    UnknownRevision
        A newer fedcomp wrote the database.
    MissingDriver
        The package for this kind of database is not installed.
    """

    def __init__(self, url: str) -> None:
        self._engine = create_engine_for(url)
        self._reader = reader_of(self._engine)
        try:
            upgrade(self._engine)
        except BaseException:
            self.close()
            raise

    @classmethod
    def open(cls, url: str) -> RunStore:
        """Open a database or, where `url` is the https:// or http:// address of a dashboard, the local one with it.

        Raises what the constructors of this class and of :class:`dashboard.remote.RemoteStore` raise.
        """
        if url.startswith(("https://", "http://")):
            from dashboard.remote import RemoteStore  # it builds on this module

            return RemoteStore(url)
        return RunStore(url)

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Open a session that only reads; it sees one moment and never waits for a writer."""
        with Session(self._reader) as session:
            yield session

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """Open a session that writes; what it did is kept when the block ends without an error."""
        with Session(self._engine) as session, session.begin():
            yield session

    def create_run(self, start: RunStart) -> str:
        """Add a run with status ``queued`` and return its new id."""
        while True:
            run_id = new_run_id(start.created_at, token_bytes(ENTROPY_BYTES))
            if self.add_run(run_id, start):
                return run_id

    def add_run(self, run_id: str, start: RunStart) -> bool:
        """Add a run under an id that was made elsewhere; return False, and change nothing, where the id is taken."""
        values = start.model_dump() | {"id": run_id, "status": "queued", "seed": str(start.seed)}
        try:
            with self.writing() as session:
                session.execute(insert(Run), [values])
        except IntegrityError:
            return False
        return True

    def start_run(
        self,
        run_id: str,
        *,
        flower_run_id: str | None = None,
        num_rounds: int | None = None,
        config: Mapping[str, JsonValue] | None = None,
        at: datetime | None = None,
    ) -> None:
        """Set a run to ``running``; one that ran before, to its end or not, goes on.

        It keeps its first start time and its rounds. What is given of `flower_run_id`, `num_rounds` and `config`
        replaces the run's own. That it was asked to stop is forgotten, unless it never ran. `at` is when it starts, now
        unless given; a start at the same instant as the last one is that one, told twice. Raises ``RunNotFound``.
        """
        at = datetime.now(UTC) if at is None else at
        with self._writing(run_id) as (session, run):
            digests.remove(session, run_id)
            if run.status != "queued" and run.latest_start_at != at:
                run.stop_requested_at = None
            run.stop_reason = None
            run.status = "running"
            run.started_at = run.started_at or at
            run.latest_start_at = at
            run.heartbeat_at = datetime.now(UTC)
            run.finished_at = None
            run.error = None
            run.flower_run_id = run.flower_run_id if flower_run_id is None else flower_run_id
            run.num_rounds = run.num_rounds if num_rounds is None else num_rounds
            run.config = run.config if config is None else dict(config)

    def record_round(self, run_id: str, result: RoundResult, clients: Sequence[ClientResult]) -> None:
        """Store one round and its clients; a round of that index that is already there is replaced whole.

        Raises
        ------
        RunNotFound
            There is no such run.
        ConfigError
            Two clients have the same name; nothing is stored.
        """
        twice = sorted(name for name, count in Counter(client.client for client in clients).items() if count > 1)
        if twice:
            raise ConfigError(f"client names {twice} appear more than once in round {result.round_index}")
        key = {"run_id": run_id, "round_index": result.round_index}
        measured = [client.vnmse for client in clients if client.vnmse is not None and not math.isnan(client.vnmse)]
        # Kept with the round, so that a curve of it needs no client's row.
        row = key | result.model_dump() | {"vnmse": sum(measured) / len(measured) if measured else None}
        with self._writing(run_id) as (session, run):
            run.heartbeat_at = datetime.now(UTC)
            digests.remove(session, run_id)
            session.execute(delete(Round).where(Round.run_id == run_id, Round.round_index == result.round_index))
            session.execute(insert(Round), [row])
            if clients:
                session.execute(insert(ClientRound), [key | client.model_dump() for client in clients])

    def delete_rounds_after(self, run_id: str, round_index: int) -> int:
        """Delete a run's rounds above `round_index`, with their clients, and return how many; for a run that resumes.

        Raises ``RunNotFound``.
        """
        with self._writing(run_id) as (session, _):
            digests.remove(session, run_id)
            later = delete(Round).where(Round.run_id == run_id, Round.round_index > round_index)
            return len(session.scalars(later.returning(Round.round_index)).all())

    def request_stop(self, run_id: str) -> RunSummary:
        """Note that a run is to end after its round in progress; asked again, the first time stays.

        Raises
        ------
        RunNotFound
            There is no such run.
        RunEnded
            It is neither queued nor running.
        """
        with self._writing(run_id) as (session, run):
            if run.status not in ("queued", "running"):
                raise RunEnded(run_id, run.status)
            run.stop_requested_at = run.stop_requested_at or datetime.now(UTC)
            return queries.summaries(session, [run])[0]

    def stop_requested(self, run_id: str) -> bool:
        """Return whether a run is to end after its round; cheap enough to ask each round. Raises ``RunNotFound``."""
        with Session(self._reader) as session:
            row = session.execute(select(Run.stop_requested_at).where(Run.id == run_id)).one_or_none()
        if row is None:
            raise RunNotFound(run_id)
        return row[0] is not None

    def set_stop_reason(self, run_id: str, reason: str) -> None:
        """Note why a run ended before its last round. Raises ``RunNotFound``."""
        with self._writing(run_id) as (_, run):
            run.stop_reason = reason

    def beat(self, run_id: str) -> None:
        """Note a sign of life of a run's writer, so that a long round does not look like a dead one.

        Raises ``RunNotFound``.
        """
        with self._writing(run_id) as (_, run):
            run.heartbeat_at = datetime.now(UTC)

    def finish_run(
        self, run_id: str, status: FinalStatus, error: str | None = None, *, at: datetime | None = None
    ) -> None:
        """Set a run's final status, its error and its finish time, which is now unless given.

        Raises ``RunNotFound`` or ``ConfigError``.
        """
        if status not in get_args(FinalStatus):
            raise ConfigError(f"status={status!r}: a run can finish as {', '.join(get_args(FinalStatus))}")
        with self._writing(run_id) as (session, run):
            run.status = status
            run.error = error
            run.finished_at = datetime.now(UTC) if at is None else at
            digests.add(session, run_id)

    def digest_ended(self, *, until: Callable[[], bool] = lambda: False) -> int:
        """Make the digests that are missing, of runs of earlier releases and of orphaned ones, and return how many.

        Nothing depends on it but speed. Each is a transaction of its own; before each it ends where `until` is true.
        """
        with self.reading() as session:
            run_ids = digests.missing(session)
        made = 0
        for run_id in run_ids:
            if until():
                break
            with self.writing() as session:
                run = session.get(Run, run_id, with_for_update=True)
                # It may have been deleted meanwhile, or taken up again.
                if run is not None and queries.is_over(run):
                    digests.add(session, run_id)
                    made += 1
        return made

    def set_checkpoint(self, run_id: str, path: str) -> None:
        """Note where a run's latest checkpoint lies. Raises ``RunNotFound``."""
        with self._writing(run_id) as (_, run):
            run.checkpoint_path = path

    def find_run(self, reference: str) -> RunDetail:
        """Return the run that `reference` means: 'latest', an id, a name (newest wins), or the start of one id.

        Raises ``RunNotFound``, or ``AmbiguousRun``, which names the candidates.
        """
        with Session(self._reader) as session:
            return queries.detail(session, queries.resolve(session, reference))

    def find_by_flower_run(self, flower_run_id: str) -> RunDetail | None:
        """Return the newest run with that Flower run id, or None."""
        query = queries.newest_first().where(Run.flower_run_id == flower_run_id).limit(1)
        with Session(self._reader) as session:
            run = session.scalars(query).first()
            return None if run is None else queries.detail(session, run)

    def list_runs(self, limit: int = 50) -> list[RunSummary]:
        """Return the newest runs, the newest first; four queries, whatever their number."""
        with Session(self._reader) as session:
            return queries.summaries(session, session.scalars(queries.newest_first().limit(limit)).all())

    def summary(self, run_id: str) -> RunSummary:
        """Return one run's totals; cheap enough to poll. Raises ``RunNotFound``."""
        with Session(self._reader) as session:
            return queries.summaries(session, [queries.existing(session, run_id)])[0]

    def rounds_after(self, run_id: str, after: int = -1) -> list[RoundDetail]:
        """Return a run's rounds with an index above `after`, in order; for polling. Raises ``RunNotFound``."""
        with Session(self._reader) as session:
            return queries.rounds_after(session, queries.existing(session, run_id).id, after)

    def close(self) -> None:
        """Close every connection; may be called twice."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _writing(self, run_id: str) -> Iterator[tuple[Session, Run]]:
        with Session(self._engine) as session, session.begin():
            # Databases without a lock for all writers lock the run's row, so that a round is replaced by one writer.
            yield session, queries.existing(session, run_id, lock=True)
