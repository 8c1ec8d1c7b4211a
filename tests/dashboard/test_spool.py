from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboard.spool import MOST_BYTES, Spool, spools


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "spool" / "a-run")


def test_lines_come_out_as_they_went_in_and_in_order(spool: Spool) -> None:
    assert not spool.exists()
    ends = [spool.append(line) for line in ("one", "zwei ü", "")]
    pending = spool.pending(10)
    assert pending.lines == ("one", "zwei ü", "")
    assert pending.end == ends[-1]
    assert not spool.is_empty()


def test_a_confirmed_part_is_not_given_again_also_after_a_restart(spool: Spool) -> None:
    for line in ("1", "2", "3"):
        spool.append(line)
    spool.confirm(spool.pending(2).end)
    again = Spool(spool.folder)
    assert again.pending(10).lines == ("3",)
    again.confirm(again.pending(10).end)
    assert again.is_empty()
    assert again.pending(10).lines == ()


def test_what_a_crash_left_half_written_is_neither_delivered_nor_in_the_way(spool: Spool) -> None:
    spool.append("whole")
    events = spool.folder / "events.jsonl"
    with events.open("ab") as file:
        file.write(b'{"half')
    assert spool.pending(10).lines == ("whole",)
    spool.append("next")
    assert spool.pending(10).lines == ("whole", "next")


def test_a_half_written_first_line_leaves_an_empty_spool(spool: Spool) -> None:
    spool.folder.mkdir(parents=True)
    (spool.folder / "events.jsonl").write_bytes(b"x" * 200_000)
    spool.append("first")
    assert spool.pending(10).lines == ("first",)


def test_batches_are_small_but_a_huge_event_goes_alone(spool: Spool) -> None:
    for line in ("a" * (MOST_BYTES + 1), "b" * (MOST_BYTES - 10), "c" * 100, "d"):
        spool.append(line)
    sizes = []
    while (pending := spool.pending(10)).lines:
        sizes.append(len(pending.lines))
        spool.confirm(pending.end)
    assert sizes == [1, 1, 2]


def test_one_process_at_a_time_delivers(spool: Spool) -> None:
    spool.append("x")
    with spool.delivering() as first, Spool(spool.folder).delivering() as second:
        assert (first, second) == (True, False)
    with spool.delivering() as mine:
        assert mine


def test_forgetting_takes_all_away_unless_something_came_in(spool: Spool) -> None:
    spool.append("1")
    spool.confirm(spool.pending(10).end)
    spool.append("2")
    spool.forget()
    assert spool.pending(10).lines == ("2",)
    spool.confirm(spool.pending(10).end)
    spool.forget()
    assert not spool.folder.exists()
    assert spool.append("anew") == 5
    assert spool.pending(10).lines == ("anew",)
    with Spool(spool.folder.parent / "nothing").delivering() as mine:
        assert not mine


def test_spools_are_found_oldest_run_first(tmp_path: Path) -> None:
    for name in ("20260102-000000-aaaa", "20260101-000000-bbbb"):
        Spool(tmp_path / name).append("x")
    assert [item.run_id for item in spools(tmp_path)] == ["20260101-000000-bbbb", "20260102-000000-aaaa"]
    assert spools(tmp_path / "absent") == []


@given(
    lines=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=50)), most=st.integers(1, 7)
)
def test_however_it_is_cut_every_line_is_delivered_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], most: int
) -> None:
    spool = Spool(tmp_path_factory.mktemp("spool") / "run")
    got: list[str] = []
    for line in lines:
        spool.append(line)
        if len(line) % 2:
            pending = spool.pending(most)
            got += pending.lines
            spool.confirm(pending.end)
    while (pending := spool.pending(most)).lines:
        got += pending.lines
        spool.confirm(pending.end)
    assert got == lines
