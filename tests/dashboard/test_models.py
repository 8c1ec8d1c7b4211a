from __future__ import annotations

import pytest
from sqlalchemy import Engine, func, insert, make_url, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from sqlalchemy.schema import CreateTable

from dashboard.db import create_engine_for
from dashboard.models import Base, ClientRound, Round, Run
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore


@pytest.fixture
def run_id(store: RunStore, start: RunStart, result: RoundResult, client: ClientResult) -> str:
    run_id = store.create_run(start)
    store.record_round(run_id, result, [client])
    return run_id


@pytest.fixture
def engine(url: str, run_id: str) -> Engine:
    return create_engine_for(url)


def test_deleting_a_run_deletes_its_rounds_and_clients(engine: Engine, run_id: str) -> None:
    with Session(engine) as session, session.begin():
        session.delete(session.get_one(Run, run_id))
    with Session(engine) as session:
        assert session.scalar(select(func.count()).select_from(Round)) == 0
        assert session.scalar(select(func.count()).select_from(ClientRound)) == 0
    engine.dispose()


@pytest.mark.parametrize("model", [Round, ClientRound])
def test_the_same_row_twice_is_refused(engine: Engine, run_id: str, model: type[Base]) -> None:
    with Session(engine) as session:
        row = session.scalars(select(model)).one()
        again = {column.key: getattr(row, column.key) for column in model.__table__.columns}
    with Session(engine) as session, pytest.raises(IntegrityError, match=r"(?i)unique"):
        session.execute(insert(model), [again])
    engine.dispose()


def test_a_round_needs_its_run(engine: Engine) -> None:
    with Session(engine) as session:
        row = session.scalars(select(Round)).one()
        orphan = {column.key: getattr(row, column.key) for column in Round.__table__.columns} | {"run_id": "nobody"}
    with Session(engine) as session, pytest.raises(IntegrityError, match=r"(?i)foreign key"):
        session.execute(insert(Round), [orphan])
    engine.dispose()


def test_the_tables_can_be_made_on_postgresql() -> None:
    dialect = make_url("postgresql://").get_dialect()()
    made = {table.name: str(CreateTable(table).compile(dialect=dialect)) for table in Base.metadata.sorted_tables}
    assert "uplink_payload_bytes BIGINT NOT NULL" in made["rounds"]
    assert "finished_at TIMESTAMP WITH TIME ZONE NOT NULL" in made["rounds"]
    assert "vnmse DOUBLE PRECISION," in made["client_rounds"]
