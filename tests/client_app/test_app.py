from __future__ import annotations

import pytest
import torch
from flwr.app import Context, Message, MessageType, RecordDict

import fedcomp
from client_app.app import app
from fedcomp.downlink import ModelPart
from fedcomp.errors import ConfigError, SeedMismatch
from fedcomp.flower.messages import ClientDescription, ClientQuery, TrainReply, TrainRequest
from tests.support.runs import identify, settings
from tests.support.tiny_task import TinyTask

MODEL = TinyTask().build_model(seed=1)
LAYOUT = fedcomp.VectorSpec.from_state_dict(MODEL.state_dict())
QUERY = ClientQuery("a-run").to_record()
VECTOR = LAYOUT.flatten(MODEL.state_dict())


def whole(vector: torch.Tensor, *, seed: int = 1) -> ModelPart:
    return ModelPart(3, None, fedcomp.compressor("identity").encode(vector, seed=1), seed)


def request(**changes: object) -> TrainRequest:
    values: dict[str, object] = {
        "parts": (whole(VECTOR),),
        "raw": {},
        "run": "a-run",
        "version": 3,
        "layout": LAYOUT.fingerprint,
        "client": "client-0",
        "round_index": 4,
        "compressor": "eden:bits=8",
        "encode_seed": 2,
        "training_seed": 3,
        "learning_rate": 0.1,
        "batch_size": 40,
    }
    return TrainRequest(**(values | changes))  # type: ignore[arg-type]


def call(content: RecordDict, message_type: str = MessageType.TRAIN, /, **node_config: str | int) -> RecordDict:
    identify()
    message = Message(content, dst_node_id=5, message_type=message_type)
    node = node_config or {"partition-id": 0, "num-partitions": 2}
    context = Context(run_id=1, node_id=5, node_config=dict(node), state=RecordDict(), run_config=settings())
    return app(message, context).content


def test_the_reply_is_the_difference_to_the_received_model() -> None:
    reply = TrainReply.from_record(call(request().to_record()))
    assert (reply.client, reply.round_index, reply.num_examples, reply.device) == ("client-0", 4, 40.0, "cpu")
    update = fedcomp.decode(reply.payload, seed=2, expected_dim=LAYOUT.dim)
    assert 0 < float(update.norm()) < float(VECTOR.norm())
    again = TrainReply.from_record(call(request().to_record()))
    assert again.payload == reply.payload
    assert 0 < reply.vnmse < 1e-4
    # Starting from another model gives another difference, not another end point.
    other = TrainReply.from_record(call(request(parts=(whole(VECTOR + 1),)).to_record()))
    assert float(fedcomp.decode(other.payload, seed=2).norm()) < float((VECTOR + 1).norm())


def test_only_one_payload_array_travels() -> None:
    content = call(request().to_record())
    assert [len(record) for record in content.array_records.values()] == [1]


def test_it_says_who_it_is() -> None:
    found = ClientDescription.from_record(call(QUERY, MessageType.QUERY))
    assert (found.client, found.partition_id, found.device) == ("client-0", 0, "cpu")
    place: dict[str, str | int] = {"partition-id": 1, "num-partitions": 2, "site": "bank"}
    named = call(QUERY, MessageType.QUERY, **place)
    assert ClientDescription.from_record(named).client == "bank"


@pytest.mark.parametrize(
    ("change", "error", "named"),
    [
        ({"client": "client-9"}, ConfigError, "request is for client 'client-9', this is 'client-0'"),
        ({"layout": "0" * 16}, ConfigError, "the server's model has layout 0000000000000000"),
        ({"parts": (whole(VECTOR, seed=7),)}, SeedMismatch, "seed 7 is not the one"),
        ({"compressor": "zip"}, ConfigError, "unknown compressor 'zip'"),
    ],
)
def test_wrong_requests_are_told(change: dict[str, object], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        call(request(**change).to_record())


@pytest.mark.parametrize(
    ("node_config", "named"),
    [
        ({"site": "bank"}, "start the SuperNode with --node-config"),
        ({"partition-id": 2, "num-partitions": 2}, "partition-id is 2; allowed: 0 to num-partitions - 1 = 1"),
        ({"partition-id": "x", "num-partitions": 2}, "start the SuperNode with"),
    ],
)
def test_a_node_without_its_place_is_told(node_config: dict[str, str | int], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        call(QUERY, MessageType.QUERY, **node_config)


def test_training_does_not_change_global_randomness() -> None:
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    call(request().to_record())
    assert torch.equal(torch.rand(2), expected)
