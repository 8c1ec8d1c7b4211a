from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from dashboard.changes import archive, delete_run, rename, set_note, set_tags
from dashboard.errors import RunInUse
from dashboard.models import Run, RunTag
from dashboard.store import ClientResult, RoundResult, RunNotFound, RunStart, RunStore
from fedcomp.errors import ConfigError


@pytest.fixture
def run_id(store: RunStore, start: RunStart) -> str:
    return store.create_run(start)


def test_tags_are_kept_once_and_sorted(store: RunStore, run_id: str) -> None:
    with store.writing() as session:
        assert set_tags(session, run_id, [" b ", "a", "b", "ü 1"]) == ("a", "b", "ü 1")
    assert store.summary(run_id).tags == ("a", "b", "ü 1")
    with store.writing() as session:
        assert set_tags(session, run_id, []) == ()
    assert store.find_run(run_id).tags == ()


@pytest.mark.parametrize("tag", ["", " ", "a,b", "x" * 51, "two\nlines", "\0"])
def test_what_is_no_tag_changes_nothing(store: RunStore, run_id: str, tag: str) -> None:
    with store.writing() as session:
        set_tags(session, run_id, ["before"])
    with pytest.raises(ConfigError, match="1 to 50 printable"), store.writing() as session:
        set_tags(session, run_id, ["fine", tag])
    assert store.summary(run_id).tags == ("before",)


def test_fifty_tags_and_no_more(store: RunStore, run_id: str) -> None:
    with store.writing() as session:
        set_tags(session, run_id, [str(number) for number in range(50)])
        with pytest.raises(ConfigError, match="51 tags"):
            set_tags(session, run_id, [str(number) for number in range(51)])


def test_a_note_is_kept_and_taken_away(store: RunStore, run_id: str) -> None:
    with store.writing() as session:
        set_note(session, run_id, " two\nlines <b> ")
    assert store.summary(run_id).note == "two\nlines <b>"
    with store.writing() as session:
        set_note(session, run_id, "  ")
    assert store.summary(run_id).note is None
    for bad in ("x" * 20_001, "a\0b"):
        with pytest.raises(ConfigError, match="20000 at most"), store.writing() as session:
            set_note(session, run_id, bad)


def test_a_renamed_run_is_found_by_its_new_name(store: RunStore, run_id: str) -> None:
    with store.writing() as session:
        rename(session, run_id, " better ")
    assert store.find_run("better").id == run_id
    for bad in ("", "  ", "a\nb", "x" * 201):
        with pytest.raises(ConfigError, match="1 to 200 printable"), store.writing() as session:
            rename(session, run_id, bad)


def test_a_run_is_archived_once_and_comes_back(store: RunStore, run_id: str) -> None:
    def now() -> datetime | None:
        return store.summary(run_id).archived_at

    with store.writing() as session:
        archive(session, run_id, archived=True)
    first = now()
    assert first is not None
    with store.writing() as session:
        archive(session, run_id, archived=True)
    assert now() == first
    with store.writing() as session:
        archive(session, run_id, archived=False)
    assert now() is None


def test_a_deleted_run_is_gone_with_all_that_was_its(
    store: RunStore, run_id: str, result: RoundResult, client: ClientResult
) -> None:
    store.start_run(run_id)
    store.record_round(run_id, result, [client])
    with store.writing() as session:
        set_tags(session, run_id, ["a"])
    store.finish_run(run_id, "completed")
    with store.writing() as session:
        delete_run(session, run_id)
    with pytest.raises(RunNotFound):
        store.find_run(run_id)
    with store.reading() as session:
        assert session.scalar(select(func.count()).select_from(RunTag)) == 0


def test_a_run_that_is_used_is_not_deleted(store: RunStore, run_id: str) -> None:
    with pytest.raises(RunInUse, match="is queued: stop it first"), store.writing() as session:
        delete_run(session, run_id)
    store.start_run(run_id)
    with pytest.raises(RunInUse, match="is running"), store.writing() as session:
        delete_run(session, run_id)
    with store.writing() as session:
        session.get_one(Run, run_id).heartbeat_at = datetime.now(UTC) - timedelta(hours=1)
    with store.writing() as session:
        delete_run(session, run_id)
    assert store.list_runs() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda session: set_tags(session, "nobody", ["a"]),
        lambda session: set_note(session, "nobody", "a"),
        lambda session: rename(session, "nobody", "a"),
        lambda session: archive(session, "nobody", archived=True),
        lambda session: delete_run(session, "nobody"),
    ],
)
def test_a_run_that_is_not_there(store: RunStore, change: Callable[[Session], None]) -> None:
    with pytest.raises(RunNotFound, match="nobody"), store.writing() as session:
        change(session)
