from __future__ import annotations

import json

import torch

from server_app.guard import Guard
from server_app.ledger import ClientRecord
from server_app.run_state import NORMS_KEPT, RunState
from server_app.stopping import Stopper
from tests.server_app.test_plan import LAYOUT, plan
from tests.support.runs import identify


def fresh() -> RunState:
    settings = plan(strategy="fedadam", server_learning_rate=0.1, downlink_compressor="eden:bits=4,scale=mmse")
    return RunState(
        vector=torch.zeros(LAYOUT.dim),
        raw={},
        optimizer=settings.new_optimizer(),
        broadcaster=settings.new_broadcaster(),
        guard=Guard(),
        stopper=Stopper(patience=3),
    )


def rounds(state: RunState, first: int, last: int) -> None:
    """Play rounds that touch everything a checkpoint must hold."""
    identify()
    for index in range(first, last + 1):
        update = torch.randn(LAYOUT.dim, generator=torch.Generator().manual_seed(index))
        state.vector = state.optimizer.step(state.vector, update, weight=3.0, round_index=index)
        state.round_index = index
        state.broadcaster.publish(state.vector, version=index, seed=index)
        state.ledger["bank"].asked += 1
        state.ledger["bank"].last_applied_round = index
        state.guard.set_initial_loss(4.0)
        state.guard.check(1.0, float(index))
        state.stopper.update(0.5, 1.0 / index, 10)
        state.uplinks.observe("bank", bytes_up=100 * index, seconds=1.0)
        state.uplink_bytes += 10
        state.remember_norms([float(index)])


def snapshot(state: RunState) -> tuple[dict[str, torch.Tensor], dict[str, object]]:
    tensors, values = state.to_checkpoint()
    return {name: value.clone() for name, value in tensors.items()}, json.loads(json.dumps(values))


def test_everything_comes_back_and_goes_on_the_same() -> None:
    whole = fresh()
    rounds(whole, 1, 3)
    vector, (tensors, values) = whole.vector.clone(), snapshot(whole)
    rounds(whole, 4, 6)
    other = fresh()
    other.restore(vector, {}, tensors, values)
    rounds(other, 4, 6)
    assert torch.equal(other.vector, whole.vector)
    (one, first), (two, second) = snapshot(whole), snapshot(other)
    assert first == second
    assert one.keys() == two.keys()
    assert {"optimizer.m_t", "optimizer.v_t", "downlink.copy"} <= one.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert other.broadcaster.parts_for(5) == whole.broadcaster.parts_for(5)


def test_an_exact_downlink_stores_the_model_once() -> None:
    state = fresh()
    state.broadcaster = plan().new_broadcaster()
    state.vector = torch.randn(LAYOUT.dim)
    state.broadcaster.publish(state.vector, version=0, seed=1)
    tensors, values = snapshot(state)
    assert not [name for name in tensors if name.startswith("downlink")]
    other = fresh()
    other.broadcaster = plan().new_broadcaster()
    other.restore(state.vector, {}, tensors, values)
    assert torch.equal(other.broadcaster.copy, state.vector)


def test_rolling_back_takes_the_model_and_keeps_the_count() -> None:
    state = fresh()
    rounds(state, 1, 2)
    vector, (tensors, values) = state.vector.clone(), snapshot(state)
    rounds(state, 3, 5)
    state.roll_back(vector, {}, tensors, values)
    assert torch.equal(state.vector, vector)
    assert state.ledger["bank"] == ClientRecord(None, 2, 2, 0, None)
    assert state.broadcaster.version == 2
    assert (state.round_index, state.uplink_bytes, state.rollbacks, state.void_rounds) == (5, 50, 1, [3, 5])
    rounds(state, 6, 6)
    # Checkpoints that cannot be read count as kept: clients must not forget what was before them too early.
    state.checkpoints = [2, 4]
    state.roll_back(vector, {}, tensors, values)
    assert (state.round_index, state.rollbacks, state.void_rounds) == (6, 2, [3, 5, 3, 6])
    assert state.checkpoints == [2, 4]
    assert [state.is_void(number) for number in (2, 3, 6, 7)] == [False, True, True, False]
    assert not fresh().is_void(0)


def test_only_the_newest_norms_are_kept() -> None:
    state = fresh()
    state.remember_norms([float(i) for i in range(NORMS_KEPT + 5)])
    assert state.norms == [float(i) for i in range(5, NORMS_KEPT + 5)]


def test_clients_may_forget_what_was_before_the_oldest_checkpoint() -> None:
    state = fresh()
    assert state.replay_from == 0
    for index in (0, 3, 6):
        state.round_index = index
        state.remember_checkpoint(2)
    assert (state.checkpoints, state.replay_from) == ([3, 6], 3)
    # In asynchronous mode clients go by requests.
    state.round_index, state.requests = 7, 40
    state.remember_checkpoint(2)
    assert (state.last_number, state.replay_from) == (40, 6)
    tensors, values = snapshot(state)
    state.round_index, state.requests = 8, 47
    state.roll_back(state.vector, {}, tensors, values)
    assert (state.void_rounds, state.checkpoints, state.requests) == ([41, 47], [6, 40], 47)
