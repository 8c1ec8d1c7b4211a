"""A database that the first release wrote, with rows, is read and written on by this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, inspect, text

from dashboard.db import create_engine_for
from dashboard.store import ClientResult, RoundResult, RunStore
from tests.support.postgres import SLOW_ON_POSTGRESQL

RUN = """INSERT INTO runs VALUES ('20261129-175312-aaaa', 'old', 'emnist', 'label', 'identity', 'fedavg',
    '18446744073709551615', 3, 1000,
    '{"seed": 1}', '{}', '7', 'completed', NULL, '/checkpoints/round-00003', '2026-11-29 17:53:12.000000',
    '2026-11-29 17:53:13.000000', '2026-11-29 17:54:00.000000')"""
ROUND = """INSERT INTO rounds VALUES ('20261129-175312-aaaa', 1, 0.5, 'nan', NULL, 2, 1, 1000, 10, 2000, 20, 2.5, 1.25,
    'partial', '2026-11-29 17:53:20.000000')"""
CLIENTS = """INSERT INTO client_rounds VALUES
    ('20261129-175312-aaaa', 1, 'a', '1', '2', 100, 500, 5, 2.5, 1.0, 0.1, 0.2, 0.7, 0.13, 'cpu', NULL),
    ('20261129-175312-aaaa', 1, 'b', '1', '2', 0, 0, 0, 'nan', 0.0, 0.0, 0.0, NULL, NULL, 'cpu', 'no reply')"""
OPEN = """
with RunStore(sys.argv[1]) as store:
    sys.stdout.write(store.find_run("old").rounds[0].client_results[1].outcome)
"""


def migrate(engine: Engine, how: Callable[[Config, str], None], revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "dashboard:migrations")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        how(config, revision)


def columns(engine: Engine) -> dict[str, list[str]]:
    found = inspect(engine)
    return {name: [column["name"] for column in found.get_columns(name)] for name in found.get_table_names()}


@pytest.fixture
def old(empty_url: str) -> Iterator[Engine]:
    engine = create_engine_for(empty_url)
    migrate(engine, command.upgrade, "0001")
    with engine.begin() as connection:
        for statement in (RUN, ROUND, CLIENTS):
            connection.exec_driver_sql(statement)
    yield engine
    engine.dispose()


def test_old_rows_are_read(old: Engine, empty_url: str) -> None:
    with RunStore(empty_url) as store:
        run = store.find_run("old")
    assert (run.status, run.seed, run.config, run.rounds_done) == ("completed", 2**64 - 1, {"seed": 1}, 1)
    assert (run.stop_requested_at, run.stop_reason) == (None, None)
    assert (run.total_uplink_payload_bytes, run.total_downlink_payload_bytes) == (1000, 2000)
    (item,) = run.rounds
    assert (item.accuracy, item.clients, item.rejected, item.status) == (0.5, 2, 1, "partial")
    assert (item.asked, item.late, item.note, item.model_version) == (3, 0, None, None)
    assert (item.server_seconds, item.evaluate_seconds) == (0.0, 0.0)
    assert (item.downlink_bits_per_coordinate, item.update_norm) == (None, None)
    accepted, rejected = item.client_results
    assert (accepted.outcome, accepted.weight, accepted.bits_asked, accepted.bits_source) == (
        "applied",
        None,
        None,
        None,
    )
    assert (accepted.downlink_payload_bytes, accepted.downlink_envelope_bytes) == (0, 0)
    assert (rejected.outcome, rejected.reject_reason) == ("rejected", "no reply")


def test_an_old_run_goes_on(old: Engine, empty_url: str, result: RoundResult, client: ClientResult) -> None:
    with RunStore(empty_url) as store:
        run_id = store.find_run("old").id
        store.start_run(run_id, num_rounds=5)
        store.record_round(run_id, result.model_copy(update={"round_index": 2, "late": 1}), [client])
        store.request_stop(run_id)
        assert [item.late for item in store.rounds_after(run_id)] == [0, 1]
        assert store.stop_requested(run_id)


def test_the_way_back_leaves_what_was_there(old: Engine, empty_url: str) -> None:
    before = columns(old)
    with RunStore(empty_url):
        pass
    assert columns(old) != before
    migrate(old, command.downgrade, "0001")
    assert columns(old) == before
    with old.connect() as connection:
        assert connection.scalars(text("SELECT client FROM client_rounds ORDER BY client")).all() == ["a", "b"]


@pytest.mark.parametrize("empty_url", SLOW_ON_POSTGRESQL, indirect=True)
def test_many_processes_open_an_old_database_at_once(
    old: Engine, empty_url: str, race: Callable[[str, Sequence[Sequence[str]]], list[str]]
) -> None:
    assert race(OPEN, [[empty_url]] * 4) == ["rejected"] * 4
