from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from dashboard.changes import archive, set_tags
from dashboard.errors import BadCursor
from dashboard.run_list import choices, list_runs
from dashboard.schemas_compare import RunFilter, RunPage
from dashboard.store import RoundResult, RunStart, RunStore

NOW = datetime(2026, 11, 29, 17, 53, 12, tzinfo=UTC)
Add = Callable[..., str]


@pytest.fixture
def add(store: RunStore, start: RunStart, result: RoundResult) -> Add:
    def added(name: str, seconds: float = 0, *, bits: float | None = None, **changes: Any) -> str:
        values = {"name": name, "created_at": NOW + timedelta(seconds=seconds), **changes}
        run_id = store.create_run(start.model_copy(update=values))
        if bits is not None:
            store.record_round(run_id, result.model_copy(update={"bits_per_coordinate": bits}), [])
        return run_id

    return added


def names(store: RunStore, limit: int = 50, cursor: str | None = None, **chosen: Any) -> list[str]:
    return [run.name for run in page(store, limit, cursor, **chosen).runs]


def page(store: RunStore, limit: int = 50, cursor: str | None = None, **chosen: Any) -> RunPage:
    with store.reading() as session:
        return list_runs(session, RunFilter(**chosen), limit=limit, cursor=cursor)


def test_pages_hold_every_run_once_the_newest_first_while_runs_are_added(store: RunStore, add: Add) -> None:
    # Several share an instant, so that the order among those must be settled by something else.
    for number in range(7):
        add(str(number), number // 3)
    seen, cursor = [], None
    while True:
        found = page(store, 2, cursor)
        seen += [(run.created_at, run.id) for run in found.runs]
        cursor = found.next_cursor
        if cursor is None:
            break
        add("newer", 100)
    assert len(seen) == 7
    assert seen == sorted(set(seen), reverse=True)


def test_the_total_counts_what_fits_not_what_is_shown(store: RunStore, add: Add) -> None:
    for number in range(4):
        add("a" if number else "b", number)
    assert page(store, 2, name_prefix="a").total == 3
    assert page(store, 0).next_cursor is not None
    assert len(page(store, 10**9).runs) == 4


def test_a_cursor_that_names_no_run_is_refused(store: RunStore) -> None:
    with pytest.raises(BadCursor, match="'nobody' names no run"):
        page(store, cursor="nobody")


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ["c", "b", "a"]),
        ({"task": "emnist"}, ["b", "a"]),
        ({"task": "emnis"}, []),
        ({"compressor": "BITS"}, ["c", "a"]),
        ({"compressor": "%"}, []),
        ({"name_prefix": "a"}, ["a"]),
        ({"name_prefix": "_"}, []),
        ({"min_bits": 2.0}, ["c", "b"]),
        ({"max_bits": 2.0}, ["b", "a"]),
        ({"min_bits": 2.0, "max_bits": 2.0}, ["b"]),
        ({"created_after": NOW + timedelta(seconds=1)}, ["c", "b"]),
        ({"created_before": NOW + timedelta(seconds=1)}, ["a"]),
        ({"status": "queued"}, ["c", "b", "a"]),
        ({"status": "running"}, []),
        ({"task": "emnist", "min_bits": 1.5}, ["b"]),
    ],
)
def test_each_filter_limits(store: RunStore, add: Add, chosen: dict[str, Any], expected: list[str]) -> None:
    add("a", 0, bits=1.0, compressor="eden:bits=1")
    add("b", 1, bits=2.0, compressor="sign")
    add("c", 2, bits=4.0, compressor="qsgd:bits=4", task="other")
    assert names(store, **chosen) == expected


def test_runs_without_bits_or_with_nan_fit_no_limit_of_bits(store: RunStore, add: Add) -> None:
    add("nothing sent")
    add("nan", 1, bits=math.nan)
    add("some", 2, bits=2.0)
    assert names(store, min_bits=0.0) == ["some"]
    assert names(store, max_bits=100.0) == ["some"]


def test_tags_and_the_archive(store: RunStore, add: Add) -> None:
    first, second = add("first"), add("second", 1)
    with store.writing() as session:
        set_tags(session, first, ["good", "paper"])
        archive(session, second, archived=True)
    assert names(store) == ["first"]
    assert names(store, archived=True) == ["second"]
    assert names(store, archived=None) == ["second", "first"]
    assert names(store, tag="good") == ["first"]
    assert names(store, tag="goo") == []
    assert page(store, tag="paper").runs[0].tags == ("good", "paper")


def test_running_and_orphaned_are_told_apart(store: RunStore, add: Add) -> None:
    for name in ("alive", "dead"):
        store.start_run(add(name))
    with store.writing() as session:
        from dashboard.models import Run

        dead = session.query(Run).where(Run.name == "dead").one()
        dead.heartbeat_at = datetime.now(UTC) - timedelta(hours=1)
    assert names(store, status="running") == ["alive"]
    assert names(store, status="orphaned") == ["dead"]
    assert [run.shown_status for run in page(store, status="orphaned").runs] == ["orphaned"]


def test_menus_say_what_there_is(store: RunStore, add: Add) -> None:
    run_id = add("a", compressor="sign", config={"beta": 1})
    add("b", 1, task="another", config={"alpha": 1, "beta": 2})
    with store.writing() as session:
        set_tags(session, run_id, ["z", "a"])
    with store.reading() as session:
        found = choices(session)
    assert found.tasks == ("another", "emnist")
    assert found.compressors == ("eden:bits=2", "sign")
    assert found.tags == ("a", "z")
    assert found.config_keys == ("alpha", "beta")
