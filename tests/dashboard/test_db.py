from __future__ import annotations

import logging
import sqlite3
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import URL, Engine, create_engine, inspect, text
from sqlalchemy.exc import InternalError, OperationalError

from dashboard.db import READ_ONLY, MissingDriver, UnknownRevision, create_engine_for, reader_of, upgrade
from fedcomp.errors import FedcompError
from tests.support.postgres import Cluster

UPGRADE = """
engine = create_engine_for(sys.argv[1])
upgrade(engine)
engine.dispose()
"""


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'runs.db'}"


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = create_engine_for(url)
    yield engine
    engine.dispose()


def pragma(engine: Engine, name: str) -> object:
    with engine.connect() as connection:
        return connection.scalar(text(f"PRAGMA {name}"))


def test_sqlite_connections_are_set_up(engine: Engine) -> None:
    assert pragma(engine, "journal_mode") == "wal"
    assert pragma(engine, "foreign_keys") == 1
    assert pragma(engine, "busy_timeout") == 30_000
    with engine.connect() as connection:
        driver: Any = connection.connection.dbapi_connection
        assert driver.isolation_level is None


def test_the_switch_to_write_ahead_logging_waits_for_a_writer(tmp_path: Path, engine: Engine) -> None:
    # Only where another connection has the write lock in the old mode does SQLite refuse at once, whatever the timeout.
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None, check_same_thread=False)) as writer:
        writer.execute("CREATE TABLE t (x INTEGER)")
        writer.execute("BEGIN IMMEDIATE")
        release = threading.Timer(0.2, writer.execute, ["COMMIT"])
        release.start()
        try:
            assert pragma(engine, "journal_mode") == "wal"
        finally:
            release.join()


def test_a_path_with_spaces_and_without_a_folder_works(tmp_path: Path) -> None:
    path = tmp_path / "my runs" / "deep down" / "runs 1.db"
    engine = create_engine_for(f"sqlite:///{path}")
    upgrade(engine)
    engine.dispose()
    assert path.is_file()


def test_a_url_object_takes_any_path(tmp_path: Path) -> None:
    path = tmp_path / "100%25 ?&#" / "runs.db"
    engine = create_engine_for(URL.create("sqlite", database=str(path)))
    upgrade(engine)
    engine.dispose()
    assert path.is_file()


def test_a_memory_database_works_and_makes_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = create_engine_for("sqlite://")
    upgrade(engine)
    assert inspect(engine).has_table("runs")
    engine.dispose()
    assert list(tmp_path.iterdir()) == []


def test_transactions_hold_the_write_lock_from_their_beginning(url: str, engine: Engine) -> None:
    upgrade(engine)
    impatient = create_engine(url, connect_args={"timeout": 0})
    with engine.begin(), impatient.connect() as other, pytest.raises(OperationalError, match="locked"):
        other.exec_driver_sql("BEGIN IMMEDIATE")
    impatient.dispose()


def test_reads_take_no_lock_and_see_one_moment(engine: Engine) -> None:
    upgrade(engine)
    insert = text("INSERT INTO alembic_version VALUES ('x')")
    count = text("SELECT count(*) FROM alembic_version")
    reader = engine.execution_options(**{READ_ONLY: True})
    with reader.connect() as reading:
        assert reading.scalar(count) == 1
        with engine.begin() as writing:
            writing.execute(insert)
        assert reading.scalar(count) == 1


def test_a_failed_transaction_takes_its_tables_back(engine: Engine) -> None:
    def create_and_fail() -> None:
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE half (x INTEGER)")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        create_and_fail()
    assert not inspect(engine).has_table("half")


def test_upgrading_twice_changes_nothing(engine: Engine) -> None:
    upgrade(engine)
    before = pragma(engine, "schema_version")
    upgrade(engine)
    assert pragma(engine, "schema_version") == before


def test_an_unknown_revision_is_refused_by_name(engine: Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(UnknownRevision, match=r"'9999'.* upgrade fedcomp"):
        upgrade(engine)
    assert issubclass(UnknownRevision, FedcompError)


def test_upgrade_leaves_logging_alone(engine: Engine) -> None:
    mine = logging.getLogger("mine.before.upgrade")
    root = logging.getLogger()
    before = (root.level, list(root.handlers), mine.disabled, logging.getLogger("alembic").level)
    upgrade(engine)
    assert (root.level, list(root.handlers), mine.disabled, logging.getLogger("alembic").level) == before


def test_eight_processes_upgrade_one_fresh_database(
    tmp_path: Path, race: Callable[[str, Sequence[Sequence[str]]], list[str]]
) -> None:
    url = f"sqlite:///{tmp_path / 'new' / 'runs.db'}"
    race(UPGRADE, [[url]] * 8)
    engine = create_engine_for(url)
    with engine.connect() as connection:
        assert connection.scalars(text("SELECT version_num FROM alembic_version")).all() == ["0004"]
    engine.dispose()


def test_threads_upgrade_databases_of_their_own(tmp_path: Path) -> None:
    barrier = threading.Barrier(8)

    def open_one(number: int) -> bool:
        engine = create_engine_for(f"sqlite:///{tmp_path / f'{number}.db'}")
        barrier.wait(timeout=30)
        upgrade(engine)
        made = inspect(engine).has_table("client_rounds")
        engine.dispose()
        return made

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(open_one, range(8)))


def test_a_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingDriver, match=r"'psycopg'.*fedcomp\[postgres\]") as missing:
        create_engine_for("postgresql://me:secret@host/runs")
    assert "secret" not in str(missing.value)


def test_a_plain_postgresql_url_means_psycopg_3() -> None:
    engine = create_engine_for("postgresql://host/runs")
    assert engine.dialect.driver == "psycopg"
    engine.dispose()


def test_a_reader_cannot_write_and_sees_one_moment_on_postgresql(postgres_cluster: Cluster) -> None:
    engine = create_engine_for(postgres_cluster.url(postgres_cluster.create()))
    upgrade(engine)
    reader = reader_of(engine)
    count = text("SELECT count(*) FROM alembic_version")
    insert = text("INSERT INTO alembic_version VALUES ('x')")
    with reader.connect() as reading:
        assert reading.scalar(count) == 1
        with engine.begin() as writing:
            writing.execute(insert)
        assert reading.scalar(count) == 1
        with pytest.raises(InternalError, match="read-only"):
            reading.execute(insert)
    # The connection goes back to the pool and writes again.
    with engine.begin() as writing:
        writing.execute(text("DELETE FROM alembic_version WHERE version_num = 'x'"))
    engine.dispose()
