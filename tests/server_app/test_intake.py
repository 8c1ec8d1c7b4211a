from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
import torch
from flwr.app import Message

import fedcomp
from fedcomp.downlink import MissingVersion, receive
from fedcomp.flower.mailbox import Failure
from fedcomp.flower.messages import TrainReply, TrainRequest, message_bytes
from server_app.assignments import Assignment
from server_app.intake import Intake, read_reply
from server_app.outcomes import ClientOutcome, RoundOutcome
from server_app.roster import Client
from server_app.run_state import RunState
from tests.server_app.test_plan import LAYOUT, plan
from tests.server_app.test_run_state import fresh
from tests.support.runs import identify

UPDATE = torch.randn(LAYOUT.dim, generator=torch.Generator().manual_seed(3))


def asked(name: str = "bank", *, chance: float = 1.0) -> Assignment:
    client = Client(name, 1, 7, "cpu", "0.1.0")
    request = TrainRequest((), {}, LAYOUT.fingerprint, "a-run", name, 4, 3, "identity", 11, 12, 0.1, 20)
    return Assignment(client, request, chance, ClientOutcome(client, downlink_payload_bytes=9))


def replied(item: Assignment, update: torch.Tensor = UPDATE, **changes: object) -> Message:
    identify()
    request = item.request
    payload = fedcomp.compressor("identity").encode(update, seed=request.encode_seed)
    reply = TrainReply(payload, {}, request.client, request.round_index, "cpu", 5, 40.0, 0.5, 0.25, 1.0, 0.1)
    return Message(replace(reply, **changes).to_record(), dst_node_id=7, message_type="train")  # type: ignore[arg-type]


@pytest.fixture
def state() -> RunState:
    return fresh()


def intake(state: RunState, **settings: str | float | bool) -> tuple[Intake, RoundOutcome]:
    outcome = RoundOutcome(4, 3, time.perf_counter(), wanted=1)
    return Intake(plan(**settings), state, outcome), outcome


def test_a_good_reply_is_added_and_remembered(state: RunState) -> None:
    taking, outcome = intake(state)
    item = taking.take(replied(asked()), asked(), staleness=3)
    assert (item.verdict, item.reject_reason, item.weight, item.staleness) == ("applied", None, 40 / 2, 3)
    assert item.reply is not None
    assert item.reply.payload == b""
    assert item.downlink_payload_bytes == 9
    assert item.decode_seconds > 0
    taking.finish()
    assert outcome.mean is not None
    torch.testing.assert_close(outcome.mean.mean, UPDATE)
    known = state.ledger["bank"]
    assert (known.held_version, known.last_applied_round, known.replied, known.examples) == (5, 4, 1, 40.0)


def test_a_chance_divides_the_weight(state: RunState) -> None:
    taking, _ = intake(state, sampler="examples")
    assert taking.take(replied(asked()), asked(chance=0.5)).weight == 80.0


@pytest.mark.parametrize("examples", [math.nan, math.inf, -1.0, 2.0**60])
def test_a_bad_number_of_examples_is_a_bad_weight(state: RunState, examples: float) -> None:
    taking, _ = intake(state)
    item = taking.take(replied(asked(), num_examples=examples), asked())
    assert item.verdict == "rejected"
    assert str(item.reject_reason).startswith("InvalidWeight")
    assert (taking.accepted, state.ledger["bank"].last_applied_round) == (0, 0)


def test_an_update_of_another_model_is_refused(state: RunState) -> None:
    taking, _ = intake(state)
    item = taking.take(replied(asked(), torch.ones(3)), asked())
    assert str(item.reject_reason).startswith("DimMismatch")


def test_clipping_scales_what_is_too_long(state: RunState) -> None:
    taking, outcome = intake(state, clip_norm=1.0)
    long, short = asked("long"), asked("short")
    first = taking.take(replied(long), long)
    second = taking.take(replied(short, UPDATE * 1e-4), short)
    norm = float(UPDATE.norm())
    assert first.norm == pytest.approx(norm)
    assert first.clip_factor == pytest.approx(1 / norm)
    assert second.clip_factor == 1.0
    taking.finish()
    assert outcome.mean is not None
    torch.testing.assert_close(outcome.mean.mean, (UPDATE / norm + UPDATE * 1e-4) / 2)
    assert state.norms == pytest.approx([norm, norm * 1e-4])


def test_a_round_without_a_mean_was_not_applied(state: RunState) -> None:
    taking, outcome = intake(state)
    taking.take(replied(asked(), num_examples=0.0), asked())
    taking.finish()
    assert outcome.mean is None
    assert str(outcome.note).startswith("EmptyMean")
    assert [(item.reject_reason, item.weight) for item in outcome.outcomes] == [("the round had no mean", None)]
    assert outcome.raw == state.raw
    assert state.ledger["bank"].last_applied_round == 0


def test_which_model_a_client_holds_is_learned_from_every_reply(state: RunState) -> None:
    def after(message: Message | Failure) -> int | None:
        read_reply(message, asked(), state)
        return state.ledger["bank"].held_version

    assert after(replied(asked(), round_index=9)) == 5
    assert after(Failure("client error 2: ValueError: no data")) == 5
    # As Flower's simulation hands on a client's exception: its words, without its class.
    with pytest.raises(MissingVersion) as caught:
        receive([], held_version=None, held=None, dim=3)
    words = f"client error 2: Exception ClientAppException occurred. Message: {caught.value}'>"
    assert after(Failure(words)) is None
    assert after(replied(asked())) == 5
    assert after(replied(asked(), holds_version=-1)) is None


def test_a_reply_that_cannot_be_read_costs_its_bytes_and_what_was_known_of_its_client(state: RunState) -> None:
    state.ledger["bank"].held_version = 5
    message = replied(asked())
    del message.content["arrays"]
    item = read_reply(message, asked(), state).outcome
    assert str(item.reject_reason).startswith("MalformedMessage")
    assert (item.payload_bytes, item.envelope_bytes) == (0, message_bytes(message))
    assert state.ledger["bank"].held_version is None


def test_a_reply_is_used_with_all_its_tensors_or_not_at_all(state: RunState) -> None:
    state.raw = {"steps": torch.tensor(3)}
    taking, outcome = intake(state)
    light, heavy, bare = asked("light"), asked("heavy"), asked("bare")
    taking.take(replied(light, raw={"steps": torch.tensor(10)}, num_examples=1.0), light)
    item = taking.take(replied(heavy, raw={"steps": torch.tensor(20)}, num_examples=9.0), heavy)
    assert item.reply is not None
    assert item.reply.raw == {}
    refused = taking.take(replied(bare, 100 * UPDATE), bare)
    assert (refused.verdict, refused.weight, refused.norm) == ("rejected", None, None)
    assert (state.ledger["bare"].replied, state.ledger["bare"].examples) == (0, None)
    taking.finish()
    assert outcome.mean is not None
    assert (outcome.mean.clients, outcome.mean.weight) == (2, 10.0)
    torch.testing.assert_close(outcome.mean.mean, UPDATE)
    assert outcome.raw == {"steps": torch.tensor(19)}
    assert [client.last_applied_round for client in (state.ledger[name] for name in ("light", "heavy", "bare"))] == [
        4,
        4,
        0,
    ]


def test_what_was_applied_is_noted_by_the_number_that_asked_for_it(state: RunState) -> None:
    # In asynchronous mode requests have other numbers than the steps that use them.
    outcome = RoundOutcome(9, 8, time.perf_counter(), wanted=1)
    taking = Intake(plan(), state, outcome)
    taking.take(replied(asked()), asked())
    taking.finish()
    assert state.ledger["bank"].last_applied_round == 4


def test_without_replies_the_models_integers_are_kept(state: RunState) -> None:
    state.raw = {"steps": torch.tensor(3)}
    taking, outcome = intake(state)
    taking.finish()
    assert (outcome.mean, outcome.raw) == (None, state.raw)
    assert outcome.note == "0 usable replies, min-replies is 1: the model is kept"


def test_a_late_entry_is_none_of_the_round_s_own(state: RunState) -> None:
    taking, outcome = intake(state)
    taking.note(ClientOutcome(asked().client, "late", "too late"))
    taking.note(ClientOutcome(asked().client, "over-selected", "enough"))
    assert ([item.verdict for item in outcome.outcomes], [item.verdict for item in outcome.late]) == (
        ["over-selected"],
        ["late"],
    )
