"""What rounds of earlier releases know of their clients' errors is added up; nothing else of them changes."""

from __future__ import annotations

import math
from collections.abc import Callable

from alembic import command
from alembic.config import Config
from sqlalchemy import Engine, inspect, select

from dashboard.db import create_engine_for
from dashboard.models import Round
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore


def migrate(engine: Engine, how: Callable[[Config, str], None], revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", "dashboard:migrations")
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        how(config, revision)


def test_old_rounds_get_their_mean_and_back_again(
    url: str, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    measured = {1: (0.1, 0.3), 2: (0.1, None), 3: (0.5, math.nan), 4: (math.nan, math.nan), 5: (None, None)}
    with RunStore(url) as store:
        run_id = store.create_run(start)
        for index, values in measured.items():
            clients = [client.model_copy(update={"client": str(k), "vnmse": v}) for k, v in enumerate(values)]
            store.record_round(run_id, result.model_copy(update={"round_index": index}), clients)
        store.record_round(run_id, result.model_copy(update={"round_index": 6}), [])
        before = store.find_run(run_id)
    engine = create_engine_for(url)
    means = select(Round.vnmse).order_by(Round.round_index)
    with engine.connect() as connection:
        written = connection.scalars(means).all()
    migrate(engine, command.downgrade, "0003")
    found = inspect(engine)
    assert not {"tokens", "run_tags"} & set(found.get_table_names())
    assert "vnmse" not in {column["name"] for column in found.get_columns("rounds")}
    migrate(engine, command.upgrade, "0004")
    with engine.connect() as connection:
        filled = connection.scalars(means).all()
    engine.dispose()
    assert written == [0.2, 0.1, 0.5, None, None, None]
    assert filled == written
    with RunStore(url) as store:
        after = store.find_run(run_id)
    assert repr(after.rounds) == repr(before.rounds)  # NaN is not equal to itself
    assert (after.tags, after.note, after.archived_at, after.heartbeat_at) == ((), None, None, None)
