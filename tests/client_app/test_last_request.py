from __future__ import annotations

import os
import time

import pytest

from client_app.last_request import LIFETIME_SECONDS, LastRequest
from client_app.state import _UNTOUCHED_SECONDS, ClientStateError, ClientStore
from fedcomp.sealing.errors import Replayed
from fedcomp.sealing.request_ids import RequestIds


def request_id(seconds: float, tail: bytes = bytes(8)) -> bytes:
    return int(seconds * 1e9).to_bytes(8, "big") + tail


def last(run: str = "a-run", client: str = "bank") -> LastRequest:
    return LastRequest.of(run=run, client=client)


def test_each_request_is_taken_once_and_none_after_a_later_one() -> None:
    ids = RequestIds()
    first, second, third = (ids.new() for _ in range(3))
    now = time.time()
    last().accept(first, now=now)
    last().accept(third, now=now)
    with pytest.raises(Replayed, match="this very request of the run was taken before"):
        last().accept(third, now=now)
    for older in (first, second):
        with pytest.raises(Replayed, match=r"a later one of the run was taken before; .* clock was set back by"):
            last().accept(older, now=now)


def test_runs_and_clients_have_their_own() -> None:
    number, now = RequestIds().new(), time.time()
    last().accept(number, now=now)
    last(run="another").accept(number, now=now)
    last(client="factory").accept(number, now=now)


def test_what_is_old_is_refused_before_it_can_be_forgotten() -> None:
    now = 2e9
    last().accept(request_id(now - LIFETIME_SECONDS + 60), now=now)
    with pytest.raises(
        Replayed, match=r"made 8 days ago, at most 7 are allowed; .* the clock of the server or of this"
    ):
        last(run="another").accept(request_id(now - 8 * 86400), now=now)
    # What is kept of a run goes when nobody touched it for longer than that.
    assert LIFETIME_SECONDS < _UNTOUCHED_SECONDS


def test_it_counts_as_a_use_of_the_run_and_outlives_its_states() -> None:
    item = last()
    item.accept(request_id(2e9), now=2e9)
    run = item.path.parent.parent
    os.utime(run, (1, 1))
    item.accept(request_id(2e9 + 1), now=2e9)
    assert run.stat().st_mtime > 1e9
    ClientStore.open(run="a-run", client="bank").before(0)
    assert item.path.exists()


def test_a_number_that_cannot_be_kept_is_an_error() -> None:
    item = last()
    item.path.parent.parent.mkdir(parents=True)
    item.path.parent.write_text("in the way")
    with pytest.raises(ClientStateError, match="could not be read or written"):
        item.accept(request_id(2e9), now=2e9)
