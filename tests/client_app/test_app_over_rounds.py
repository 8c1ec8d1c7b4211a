"""What a client carries from one request to the next."""

from __future__ import annotations

import pytest
import torch
from flwr.app import Context, Message, MessageType, RecordDict
from torch import Tensor

import fedcomp
from client_app.app import app
from client_app.resources import choose_device
from client_app.state import ClientStore
from fedcomp.downlink import ModelPart
from fedcomp.flower.messages import ClientDescription, ClientQuery, TrainReply, TrainRequest
from tests.client_app.test_app import LAYOUT, VECTOR, call, request, whole
from tests.support.client_states import rounds
from tests.support.runs import BUFFERS, Value, identify, settings
from tests.support.tiny_task import BufferTask

TOPK = "topk:fraction=0.1"


def ask(content: RecordDict, kind: str = MessageType.TRAIN, /, **node_config: Value) -> RecordDict:
    identify()
    message = Message(content, dst_node_id=5, message_type=kind)
    node = {"partition-id": 0, "num-partitions": 2} | node_config
    config = settings(task=node.pop("task", settings()["task"]), batch_size=40)
    return app(message, Context(run_id=1, node_id=5, node_config=node, state=RecordDict(), run_config=config)).content


def train(**changes: object) -> TrainReply:
    return TrainReply.from_record(ask(request(**changes).to_record()))


def describe(**node_config: Value) -> ClientDescription:
    return ClientDescription.from_record(ask(ClientQuery("a-run").to_record(), MessageType.QUERY, **node_config))


def store() -> ClientStore:
    return ClientStore.open(run="a-run", client="client-0")


def sent(reply: TrainReply) -> Tensor:
    return fedcomp.decode(reply.payload, seed=2)


def kept(round_index: int) -> Tensor:
    residual = store().before(round_index + 1).residual
    assert residual is not None
    return residual


UPDATE_OF_A_ROUND = {"compressor": "identity", "round_index": 1}


def test_what_was_sent_and_not_used_is_sent_again_and_what_was_used_is_not() -> None:
    update = sent(train(**UPDATE_OF_A_ROUND))
    feedback = {"compressor": TOPK, "feedback": True}
    first = sent(train(round_index=4, **feedback))
    lost = kept(4)
    torch.testing.assert_close(first + lost, update)
    assert 0 < float(first.norm()) < float(update.norm())

    used = sent(train(round_index=5, last_applied_round=4, **feedback))
    torch.testing.assert_close(used + kept(5), update + lost)
    # The same round once more, now that the server says that it did not use the payload.
    unused = sent(train(round_index=5, last_applied_round=0, **feedback))
    torch.testing.assert_close(unused + kept(5), 2 * update)
    # Nothing of round 4 counts when it is void.
    void = sent(train(round_index=5, last_applied_round=0, void_rounds=(4, 4), **feedback))
    torch.testing.assert_close(void + kept(5), update)


def test_a_round_that_is_asked_for_again_gives_the_same_bytes() -> None:
    feedback = {"compressor": TOPK, "feedback": True}
    train(round_index=4, **feedback)
    once, again = (train(round_index=5, last_applied_round=4, **feedback) for _ in range(2))
    assert once.payload == again.payload


def test_the_model_it_got_is_the_one_it_keeps() -> None:
    part = ModelPart(4, 3, fedcomp.compressor("identity").encode(torch.full_like(VECTOR, 0.5), seed=6), 6)
    reply = train(round_index=8, keeps_model=True)
    assert reply.holds_version == 3
    state = store().before(9)
    assert (state.version, state.residual, state.pending) == (3, None, None)
    assert state.model is not None
    assert torch.equal(state.model, VECTOR)
    assert describe().holds_version == 3
    # With a difference to it, it trains what the server would have sent whole.
    update = sent(train(round_index=9, version=4, parts=(part,), keeps_model=True, compressor="identity"))
    whole_model = (whole(VECTOR + 0.5),)
    assert torch.equal(update, sent(train(round_index=9, version=4, parts=whole_model, compressor="identity")))
    assert describe().holds_version == 4
    assert rounds(store()) == ["round-00008", "round-00009"]
    train(round_index=10, version=4, parts=(), keeps_model=True, replay_from=9)
    assert rounds(store()) == ["round-00009", "round-00010"]


def test_it_says_that_it_keeps_nothing_when_it_does() -> None:
    assert describe().holds_version == -1
    assert train().holds_version == -1
    assert rounds(store()) == []
    # What it keeps for feedback is no model.
    assert train(compressor=TOPK, feedback=True).holds_version == -1
    assert describe().holds_version == -1


def test_it_says_what_its_site_allows_and_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: dict[str, Value] = {"bits": 1.5, "uplink-mbps": 20, "site": "bank"}
    found = describe(**limits)
    assert (found.bits, found.uplink_mbps, found.num_partitions, found.simulated) == (1.5, 20.0, 2, False)
    monkeypatch.setattr("client_app.app.is_simulated", lambda: True)
    found = describe()
    assert (found.bits, found.uplink_mbps, found.simulated) == (0.0, 0.0, True)


def test_the_site_decides_where_it_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted: list[str] = []

    def choose(device: str, *, partition_id: int) -> torch.device:
        wanted.append(device)
        return choose_device("cpu")

    monkeypatch.setattr("client_app.app.choose_device", choose)
    ask(request().to_record(), MessageType.TRAIN, device="cuda:3")
    describe(device="cuda:4")
    train()
    assert wanted == ["cuda:3", "cuda:4", "auto"]


def test_integer_tensors_go_there_and_back() -> None:
    model = BufferTask().build_model(seed=1).state_dict()
    layout = fedcomp.VectorSpec.from_state_dict(model)
    asked: TrainRequest = request(
        parts=(whole(layout.flatten(model)),),
        raw=layout.raw(model) | {"norm.num_batches_tracked": torch.tensor(7)},
        layout=layout.fingerprint,
    )
    reply = TrainReply.from_record(ask(asked.to_record(), MessageType.TRAIN, task=BUFFERS))
    assert int(reply.raw["norm.num_batches_tracked"]) == 8
    assert torch.equal(reply.raw["mask"], model["mask"])


def test_the_training_seed_orders_examples_and_does_not_choose_them() -> None:
    # One batch holds all examples, so that their order is no more than rounding.
    one, other = (sent(train(compressor="identity", training_seed=seed)) for seed in (3, 4))
    torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)
    assert train().num_examples == 40.0
    # In two batches it matters which examples are in the first.
    asked = (request(compressor="identity", training_seed=seed, batch_size=20) for seed in (3, 4))
    first, second = (sent(TrainReply.from_record(call(item.to_record()))) for item in asked)
    assert first.numel() == LAYOUT.dim
    assert not torch.allclose(first, second, rtol=1e-3, atol=1e-6)
