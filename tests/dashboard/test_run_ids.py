from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from dashboard.run_ids import new_run_id

NOW = datetime(2026, 11, 29, 17, 53, 12, tzinfo=UTC)


def test_an_id_is_the_utc_time_and_four_characters() -> None:
    assert new_run_id(NOW, bytes([19, 3, 15, 9])) == "20261129-175312-k3f9"
    assert new_run_id(NOW.astimezone(timezone(timedelta(hours=9))), bytes([19, 3, 15, 9])) == "20261129-175312-k3f9"


def test_every_byte_gives_a_character_that_can_be_typed() -> None:
    suffixes = {new_run_id(NOW, bytes([0, 0, 0, byte]))[-1] for byte in range(256)}
    assert len(suffixes) == 32
    assert all(re.fullmatch(r"[0-9a-hjkmnp-tv-z]", suffix) for suffix in suffixes)


def test_ids_sort_by_time() -> None:
    steps = [timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=7), timedelta(days=2), timedelta(days=40)]
    for step in steps:
        assert new_run_id(NOW, b"\xff\xff\xff\xff") < new_run_id(NOW + step, bytes(4))


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        new_run_id(NOW.replace(tzinfo=None), bytes(4))


@pytest.mark.parametrize("length", [0, 3, 5])
def test_another_number_of_bytes_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match=f"entropy has {length} bytes"):
        new_run_id(NOW, bytes(length))
