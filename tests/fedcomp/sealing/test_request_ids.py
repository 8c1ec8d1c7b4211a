from __future__ import annotations

import time

import pytest

from fedcomp.sealing.envelope import REQUEST_ID_BYTES
from fedcomp.sealing.request_ids import RequestIds, made_at


def test_numbers_grow_and_say_when_they_were_made() -> None:
    ids = RequestIds()
    made = [ids.new() for _ in range(1000)]
    assert made == sorted(set(made))
    assert {len(item) for item in made} == {REQUEST_ID_BYTES}
    assert made_at(made[-1]) == pytest.approx(time.time(), abs=5)
    # Nobody can tell the next one.
    assert len({item[8:] for item in made}) == 1000


def test_they_grow_even_where_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = RequestIds()
    before = ids.new()
    monkeypatch.setattr(time, "time_ns", lambda: 10**18)
    after = [ids.new(), ids.new()]
    assert before < after[0] < after[1]
