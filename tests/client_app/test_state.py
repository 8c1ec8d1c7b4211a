from __future__ import annotations

import logging
import os
import shutil
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import fedcomp
from client_app.state import (
    ClientState,
    ClientStore,
    PendingPayload,
    remove_old_runs,
    settle,
)
from fedcomp.errors import DimMismatch
from fedcomp.feedback import ErrorFeedback
from fedcomp.home import client_state_dir, clients_dir
from tests.support.client_states import filled, opened, rounds, same

# --- where ------------------------------------------------------------------------------------------------------------

NAMES = [
    "",
    ".",
    "..",
    "../x",
    "/etc",
    "a/b",
    "a%2Fb",
    "%",
    "%2E",
    "~",
    "=",
    "a\0b",
    "a\nb",
    "größe",
    "名" * 300,
    "\udc80",
]
NAMES += ["n" * 1000, "n" * 1001, "n" * 100, "n" * 101, ".draft-1", "round-00001", "Site 7", "*", "[a]"]


@given(st.lists(st.text() | st.sampled_from(NAMES), min_size=2, max_size=2, unique=True))
def test_no_name_leaves_the_folder_and_no_two_share_one(names: list[str]) -> None:
    one, other = (client_state_dir("run", name) for name in names)
    assert one != other
    for path in (one, other):
        assert path.parent == client_state_dir("run", "").parent
        assert path.resolve() == path
        assert len(path.name.encode()) <= 100
        assert not path.name.startswith(".")
    assert client_state_dir(names[0], "c").parent.parent == clients_dir()


def test_a_long_name_cannot_be_taken_by_another() -> None:
    long = client_state_dir("run", "n" * 500).name
    assert client_state_dir("run", long) != client_state_dir("run", "n" * 500)


@pytest.mark.parametrize("name", NAMES)
def test_any_name_can_be_written(name: str) -> None:
    store = ClientStore.open(run=name, client=name)
    store.save(filled(1))
    assert same(ClientStore.open(run=name, client=name).before(2), filled(1))
    assert ClientStore.open(run=name, client=name + "x").before(2) == ClientState()
    assert ClientStore.open(run=name + "x", client=name).before(2) == ClientState()


def test_an_ordinary_name_stays_readable(fedcomp_home: Path) -> None:
    folder = fedcomp_home / "clients" / "20261129-175312-k3f9" / "client-0"
    assert client_state_dir("20261129-175312-k3f9", "client-0") == folder
    assert ClientStore.open(run="20261129-175312-k3f9", client="client-0").folder == folder
    assert not folder.parent.parent.exists()


# --- what comes back --------------------------------------------------------------------------------------------------

floats = st.lists(st.floats(width=32) | st.sampled_from([-0.0, 1e-45, float("nan"), float("inf")]), max_size=20)
vectors = st.none() | floats.map(lambda values: torch.tensor(values, dtype=torch.float32))


@settings(max_examples=30)  # each waits for the disk
@given(
    round_index=st.integers(0, 10**7),
    residual=vectors,
    pending=st.none() | st.builds(PendingPayload, st.binary(min_size=1, max_size=99), st.integers(0, 2**64 - 1)),
    version=st.none() | st.integers(0, 10**7),
    model=vectors,
)
def test_a_state_comes_back_with_the_same_bits(
    round_index: int, residual: Tensor | None, pending: PendingPayload | None, version: int | None, model: Tensor | None
) -> None:
    state = ClientState(round_index, residual, pending, version, model)
    store = opened()
    store.save(state)
    assert same(opened().before(round_index + 1), state)
    assert state.is_empty is (residual is None and pending is None and model is None)


def test_tensors_of_any_kind_can_be_given() -> None:
    both = torch.arange(8, dtype=torch.float64).view(4, 2).requires_grad_()
    opened().save(ClientState(1, both[:, 0], None, 0, both[:, 0]))
    found = opened().before(2)
    assert found.residual is not None
    assert found.model is not None
    assert found.residual.tolist() == found.model.tolist() == [0, 2, 4, 6]
    assert found.residual.dtype == torch.float32
    found.residual.add_(1)
    assert found.model.tolist() == [0, 2, 4, 6]


def test_nothing_is_there_at_first(fedcomp_home: Path) -> None:
    store = opened()
    assert store.before(1) == ClientState()
    assert ClientState().is_empty
    store.prune(5)
    assert not (fedcomp_home / "clients").exists()


def test_a_round_played_again_starts_from_the_state_before_it() -> None:
    store = opened()
    for index in (9, 10, 11, 99_999, 100_000, 100_001):
        store.save(filled(index))
    assert same(store.before(100_001), filled(100_000))
    assert rounds(store) == ["round-00009", "round-00010", "round-00011", "round-100000", "round-99999"]
    assert same(store.before(11), filled(10))
    assert rounds(store) == ["round-00009", "round-00010"]
    assert store.before(9) == ClientState()
    assert rounds(store) == []


@settings(max_examples=30)
@given(
    kept=st.sets(st.integers(1, 12)),
    round_index=st.integers(1, 14),
    void=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), max_size=2),
)
def test_void_rounds_are_forgotten(kept: set[int], round_index: int, void: list[tuple[int, int]]) -> None:
    store = opened()
    shutil.rmtree(store.folder, ignore_errors=True)
    for index in kept:
        store.save(ClientState(index, torch.ones(1)))
    given_up = {index for first, last in void for index in range(first, last + 1)}
    good = {index for index in kept - given_up if index < round_index}
    assert store.before(round_index, void=iter(void)).round_index == max(good, default=0)
    assert rounds(store) == [f"round-{index:05d}" for index in sorted(good)]


def test_prune_keeps_what_a_replay_needs() -> None:
    store = opened()
    for index in (3, 5, 8, 9):
        store.save(filled(index))
    for replay_from, names in ((2, [3, 5, 8, 9]), (3, [3, 5, 8, 9]), (7, [5, 8, 9]), (8, [8, 9]), (50, [9])):
        store.prune(replay_from)
        assert rounds(store) == [f"round-{index:05d}" for index in names]


def test_the_same_round_is_replaced() -> None:
    store = opened()
    store.save(filled(4))
    changed = ClientState(4, torch.ones(3))
    store.save(changed)
    assert same(store.before(5), changed)
    assert rounds(store) == ["round-00004"]


# --- the residual to start from ---------------------------------------------------------------------------------------


def test_nothing_is_lost_whatever_the_server_used() -> None:
    # Sum of what the server used plus the residual = sum of all updates, with the state going over the disk each round.
    generator = torch.Generator().manual_seed(1)
    used = torch.zeros(500)
    updates = torch.zeros(500)
    last_applied = 0
    store = opened()
    for round_index in range(1, 12):
        update = torch.randn(500, generator=generator)
        updates += update
        feedback = ErrorFeedback(fedcomp.compressor("topk:fraction=0.1"), settle_from(store, round_index, last_applied))
        payload = feedback.encode(update, seed=round_index)
        store.save(ClientState(round_index, feedback.residual, PendingPayload(payload, round_index)))
        if round_index in (1, 2, 5, 9):
            used += fedcomp.decode(payload, seed=round_index)
            last_applied = round_index
    residual = settle_from(store, 12, last_applied)
    assert residual is not None
    torch.testing.assert_close(used + residual, updates, rtol=1e-4, atol=1e-4)
    assert float(residual.norm()) > 1


def settle_from(store: ClientStore, round_index: int, last_applied: int) -> Tensor | None:
    return settle(store.before(round_index), last_applied_round=last_applied)


def test_the_pending_payload_comes_back_unless_it_was_used() -> None:
    payload = fedcomp.compressor("identity").encode(torch.tensor([1.0, 2.0]), seed=9)
    pending = PendingPayload(payload, 9)
    state = ClientState(4, torch.tensor([10.0, 20.0]), pending)
    before = state.residual
    for last_applied, expected in ((4, [10, 20]), (3, [11, 22]), (0, [11, 22])):
        residual = settle(state, last_applied_round=last_applied)
        assert residual is not None
        assert residual.tolist() == expected
    assert before is not None
    assert before.tolist() == [10, 20]
    alone = settle(ClientState(4, None, pending), last_applied_round=3)
    assert alone is not None
    assert alone.tolist() == [1, 2]
    assert settle(ClientState(4, None, pending), last_applied_round=4) is None
    assert settle(ClientState(4, torch.ones(2)), last_applied_round=3) is not None
    assert settle(ClientState(), last_applied_round=0) is None


def test_a_state_older_than_what_the_server_used_is_spent(caplog: pytest.LogCaptureFixture) -> None:
    # All of it was part of the payload of round 6, so adding it again would send it twice.
    state = filled(4)
    assert settle(state, last_applied_round=6) is None
    assert "used a payload of round 6, the state kept is of round 4" in caplog.text
    caplog.clear()
    assert settle(ClientState(), last_applied_round=6) is None
    assert not caplog.text


def test_a_payload_of_another_model_is_refused() -> None:
    pending = PendingPayload(fedcomp.compressor("identity").encode(torch.ones(3), seed=9), 9)
    with pytest.raises(DimMismatch):
        settle(ClientState(4, torch.ones(2), pending), last_applied_round=3)


# --- disk -------------------------------------------------------------------------------------------------------------


def test_runs_nobody_touched_for_30_days_are_removed(caplog: pytest.LogCaptureFixture) -> None:
    day = 24 * 3600
    for run in ("old", "young", "opened"):
        ClientStore.open(run=run, client="a").save(filled(1))
        ClientStore.open(run=run, client="b").save(filled(1))
    now = time.time()
    (clients_dir() / "a file").write_text("not a run")
    (clients_dir() / "elsewhere").symlink_to(client_state_dir("young", "a"))
    for name, age in (("old", 31), ("young", 29), ("opened", 31), ("a file", 31), ("young/a", 31)):
        os.utime(clients_dir() / name, (now - age * day, now - age * day))
    with caplog.at_level(logging.INFO):
        store = ClientStore.open(run="opened", client="a")
    # Neither the file nor the link is taken for a run.
    assert caplog.messages == ["client states of run old are removed: untouched for 30 days"]
    assert sorted(path.name for path in clients_dir().iterdir()) == ["a file", "elsewhere", "opened", "young"]
    assert same(store.before(2), filled(1))
    remove_old_runs(now=now + 2 * day)
    assert sorted(path.name for path in clients_dir().iterdir()) == ["a file", "elsewhere", "opened"]


def test_a_save_is_a_touch() -> None:
    store = opened()
    store.save(filled(1))
    os.utime(store.folder.parent, (0, 0))
    store.save(filled(2))
    remove_old_runs(now=time.time())
    assert rounds(store) == ["round-00001", "round-00002"]


def test_an_old_run_that_cannot_be_removed_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ClientStore.open(run="old", client="a")
    store.save(filled(1))
    os.utime(store.folder.parent, (0, 0))

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(shutil, "rmtree", refuse)
    opened()
    assert rounds(store) == ["round-00001"]
