"""Who is asked for what: each number of a request has one right source."""

from __future__ import annotations

import pytest
import torch

from fedcomp.flower.messages import message_bytes
from fedcomp.seeds import COHORT_CLIENT_ID
from server_app.assignments import Assignment, assign, measured
from server_app.guard import Guard
from server_app.plan import RunPlan
from server_app.roster import Client
from server_app.run_state import RunState
from server_app.stopping import Stopper
from tests.server_app.test_plan import LAYOUT, plan
from tests.support.runs import identify

ROUND = 7
FAST = Client("fast", 2**40, 31, "cpu", "0.1.0")
SLOW = Client("slow", 5, 30, "cpu", "0.1.0")
POOR = Client("poor", 6, 29, "cpu", "0.1.0", bits=0.01)


def state_of(item: RunPlan, versions: int = 2) -> RunState:
    """Return a state with some versions of the model published, and no round done."""
    state = RunState(
        vector=torch.randn(LAYOUT.dim, generator=torch.Generator().manual_seed(1)),
        raw={"steps": torch.tensor(9)},
        optimizer=item.new_optimizer(),
        broadcaster=item.new_broadcaster(),
        guard=Guard(),
        stopper=Stopper(),
    )
    for version in range(versions):
        state.broadcaster.publish(state.vector + 0.01 * version, version=version, seed=version)
    return state


def asked(item: RunPlan, state: RunState, *clients: Client) -> list[Assignment]:
    found, _ = assign([(client, 1.0) for client in clients], item, state, round_index=ROUND)
    return list(found.values())


def test_seeds_go_by_round_client_and_purpose() -> None:
    item = plan(compressor="eden:bits=2")
    for found in asked(item, state_of(item), FAST, SLOW):
        request, number = found.request, found.client.client_id
        assert request.encode_seed == item.seed(ROUND, number, "rotation")
        assert request.training_seed == item.seed(ROUND, number, "training")


def test_a_cohort_shares_its_rotation_and_only_those_that_are_asked_have_a_rank() -> None:
    item = plan(compressor="correlated:bits=4")
    state = state_of(item)
    found, refused = assign([(POOR, 1.0), (FAST, 1.0), (SLOW, 1.0)], item, state, round_index=ROUND)
    assert [outcome.client for outcome in refused] == [POOR]
    assert [asked.request.compressor for asked in found.values()] == [
        "correlated:bits=4,clients=2,rank=0",
        "correlated:bits=4,clients=2,rank=1",
    ]
    shared = item.seed(ROUND, COHORT_CLIENT_ID, "rotation")
    assert {asked.request.encode_seed for asked in found.values()} == {shared}
    assert len({asked.request.training_seed for asked in found.values()}) == 2
    # Who could not be asked is not one that did not reply.
    assert [state.ledger[client.name].asked for client in (POOR, FAST, SLOW)] == [0, 1, 1]


def test_how_often_a_client_was_asked_is_counted() -> None:
    item = plan()
    state = state_of(item)
    for _ in range(3):
        asked(item, state, FAST)
    asked(item, state, FAST, SLOW)
    assert (state.ledger["fast"].asked, state.ledger["slow"].asked) == (4, 1)


@pytest.mark.parametrize("feedback", ["on", "off"])
@pytest.mark.parametrize("downlink", ["identity", "eden:bits=4,scale=mmse"])
def test_what_the_run_knows_travels(feedback: str, downlink: str) -> None:
    item = plan(compressor="sign", error_feedback=feedback, downlink_compressor=downlink)
    state = state_of(item)
    state.void_rounds, state.checkpoints, state.round_index = [3, 5], [2, 6], 6
    state.ledger["slow"].last_applied_round = 2
    first, second = asked(item, state, FAST, SLOW)
    for request in (first.request, second.request):
        assert (request.run, request.layout, request.round_index) == ("a-run", LAYOUT.fingerprint, ROUND)
        # The model's version, which after a rollback is older than the last round.
        assert request.version == 1
        assert (request.void_rounds, request.replay_from) == ((3, 5), 2)
        assert (request.feedback, request.keeps_model) == (feedback == "on", downlink != "identity")
        assert request.raw == state.raw
    assert (first.request.client, second.request.client) == ("fast", "slow")
    assert (first.request.last_applied_round, second.request.last_applied_round) == (0, 2)


def test_everyone_gets_what_it_lacks_and_all_its_bytes_are_counted() -> None:
    identify()
    item = plan(downlink_compressor="eden:bits=4,scale=mmse")
    state = state_of(item)
    new = Client("new", 8, 33, "cpu", "0.1.0")
    state.ledger["fast"].held_version, state.ledger["slow"].held_version = 1, 0
    found, _ = assign([(client, 1.0) for client in (FAST, SLOW, new)], item, state, round_index=ROUND)
    routes = [[part.base for part in asked.request.parts] for asked in found.values()]
    assert routes == [[], [0], [None, 0]]
    messages = {node: asked.message(ttl=8.0) for node, asked in found.items()}
    for node, asked in measured(found, messages).items():
        outcome = asked.outcome
        assert outcome.downlink_payload_bytes == sum(len(part.payload) for part in asked.request.parts)
        # Names and numbers of a few bytes aside, which one client has more than another.
        total = outcome.downlink_payload_bytes + outcome.downlink_envelope_bytes
        assert total == pytest.approx(message_bytes(messages[node]), abs=20)
        assert outcome.downlink_envelope_bytes > 500


def test_a_message_goes_to_its_node_with_a_time_to_live() -> None:
    identify()
    item = plan()
    (found,) = asked(item, state_of(item), FAST)
    metadata = found.message(ttl=8.0).metadata
    assert (metadata.dst_node_id, metadata.ttl, metadata.group_id) == (31, 8.0, str(ROUND))
    assert metadata.message_type == "train"


@pytest.mark.parametrize("simulated", [False, True])
def test_no_bandwidth_is_estimated_in_a_simulation(simulated: bool) -> None:
    item = plan(compressor="eden:bits=2", target_upload_seconds=1.0)
    state = state_of(item)
    state.uplinks.observe("bank", bytes_up=200, seconds=1.0)
    (found,) = asked(item, state, Client("bank", 1, 7, "cpu", "0.1.0", simulated=simulated))
    assert found.outcome.budget.source == ("run" if simulated else "estimate")
    assert (found.outcome.uplink_mbps is None) == simulated
