"""Opening the runs database and bringing its schema up to date."""

from __future__ import annotations

import sqlite3
import threading
import time
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.pool import ConnectionPoolEntry

from fedcomp.errors import FedcompError

BUSY_SECONDS = 30.0
READ_ONLY = "fedcomp_read_only"  # execution option: this transaction only reads, so SQLite takes no write lock for it
_MIGRATIONS = Path(__file__).absolute().parent / "migrations"
_UPGRADE_LOCK_KEY = 0x666564636F6D70  # "fedcomp"; the same number in every process
# Alembic's `context` and `op` belong to the whole process: one thread at a time may run migrations.
_ALEMBIC_LOCK = threading.Lock()


class UnknownRevision(FedcompError):
    """The database was written by a newer fedcomp; the message names its schema revision."""


class MissingDriver(FedcompError):
    """The package that talks to this kind of database is not installed; the message names it."""


def create_engine_for(url: str | URL) -> Engine:
    """Return an engine for the database at `url`; nothing is connected to yet.

    On SQLite the parent folder is created, and every connection has write-ahead logging, foreign keys and a busy
    timeout of 30 s. Transactions begin with the write lock held, so that what they read is still true when they
    write; those with the execution option ``READ_ONLY`` take no lock and never wait for a writer.

    Raises
    ------
    MissingDriver
        The package for this kind of database is not installed.
    """
    url = make_url(url)
    if url.get_backend_name() == "postgresql" and url.drivername == "postgresql":
        url = url.set(drivername="postgresql+psycopg")  # else SQLAlchemy would look for psycopg 2
    if url.get_backend_name() != "sqlite":
        try:
            return create_engine(url, pool_pre_ping=True)
        except ModuleNotFoundError as error:
            raise MissingDriver(
                f"database {url!r} needs the package {error.name!r}, which is not installed; "
                "for PostgreSQL install fedcomp[postgres]"
            ) from error
    if url.database and url.database != ":memory:" and not url.database.startswith("file:"):
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    event.listen(engine, "connect", _set_up_sqlite_connection)
    event.listen(engine, "begin", _begin_sqlite_transaction)
    return engine


def reader_of(engine: Engine) -> Engine:
    """Return an engine on the same connections whose transactions only read, each one moment of the database."""
    if engine.dialect.name == "sqlite":
        return engine.execution_options(**{READ_ONLY: True})
    return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)


def upgrade(engine: Engine) -> None:
    """Migrate the database behind `engine` to this release's schema; does nothing when it is there already.

    Any number of processes and threads may call this at once on the same database: one migrates, the others wait.
    A migration that fails leaves the schema as it was. Logging is left alone.

    Raises
    ------
    UnknownRevision
        The database has a schema revision that this release does not know.
    """
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    with _ALEMBIC_LOCK, engine.begin() as connection:
        if connection.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_UPGRADE_LOCK_KEY})")
        _refuse_unknown_revision(connection, ScriptDirectory.from_config(config))
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def _refuse_unknown_revision(connection: Connection, scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    for revision in MigrationContext.configure(connection).get_current_heads():
        if revision not in known:
            raise UnknownRevision(
                f"database {connection.engine.url} has schema revision {revision!r}, "
                f"this release knows {', '.join(sorted(known))}: it was written by a newer fedcomp; upgrade fedcomp"
            )


def _set_up_sqlite_connection(dbapi_connection: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    # The driver would begin transactions by itself, late and without the write lock.
    dbapi_connection.isolation_level = None
    dbapi_connection.execute("PRAGMA foreign_keys = ON")
    # A fresh database is switched to write-ahead logging once. Where another process has its write lock at that moment,
    # SQLite reports it as busy at once, without the busy timeout.
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            dbapi_connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def _begin_sqlite_transaction(connection: Connection) -> None:
    read_only = connection.get_execution_options().get(READ_ONLY, False)
    connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")
