from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedcomp.downlink import ModelPart
from fedcomp.flower.local_grid import through_the_wire
from fedcomp.flower.messages import (
    PAYLOAD_STYPE,
    ClientDescription,
    ClientQuery,
    MalformedMessage,
    TrainReply,
    TrainRequest,
    message_bytes,
)
from tests.support.runs import identify

RAW = {"count": torch.tensor(2**62 + 1), "mask": torch.tensor([True, False]), "none": torch.zeros(0, dtype=torch.int32)}
PARTS = (ModelPart(4, None, b"abc", 2**64 - 1), ModelPart(7, 4, b"", 0))
REQUEST = TrainRequest(
    parts=PARTS,
    raw=RAW,
    layout="f" * 16,
    run="20261201-000000-abcd",
    client="client-0",
    round_index=8,
    version=7,
    compressor="eden:bits=2",
    encode_seed=2**64 - 2,
    training_seed=0,
    learning_rate=0.1,
    batch_size=20,
    feedback=True,
    last_applied_round=5,
    void_rounds=(2, 3, 6, 6),
    replay_from=1,
    keeps_model=True,
)
REPLY = TrainReply(b"xyz", RAW, "client-0", 3, "cpu", -1, 5.0, 1.5, 0.13, 2.0, 0.1)


def sent(content: RecordDict) -> RecordDict:
    identify()
    return through_the_wire(Message(content, dst_node_id=1, message_type="train")).content


@pytest.mark.parametrize("item", [REQUEST, replace(REQUEST, parts=(), void_rounds=()), REPLY])
def test_requests_and_replies_survive_the_wire(item: TrainRequest | TrainReply) -> None:
    back = type(item).from_record(sent(item.to_record()))
    for name, value in vars(item).items():
        if name == "raw":
            assert back.raw.keys() == RAW.keys()
            for key, tensor in RAW.items():
                assert torch.equal(back.raw[key], tensor)
                assert back.raw[key].dtype == tensor.dtype
        else:
            assert getattr(back, name) == value


def test_descriptions_survive_the_wire() -> None:
    item = ClientDescription("bank", 3, 7, "cuda:0", "0.1.0", 1.5, 20.0, 2.0, 12, simulated=True)
    assert ClientDescription.from_record(sent(item.to_record())) == item
    assert ClientQuery.from_record(sent(ClientQuery("a run").to_record())) == ClientQuery("a run")


def test_void_rounds_are_pairs() -> None:
    assert REQUEST.void == [(2, 3), (6, 6)]
    assert replace(REQUEST, void_rounds=()).void == []


def test_a_payload_cannot_be_averaged_by_accident() -> None:
    array = REPLY.to_record().array_records["arrays"]["payload"]
    assert array.stype == PAYLOAD_STYPE
    with pytest.raises(TypeError):
        array.numpy()


def test_message_bytes_are_payload_and_envelope() -> None:
    identify()
    sizes = {}
    for length in (0, 10_000, 20_000):
        content = TrainReply(bytes(length), {}, "client-0", 3, "cpu", -1, 5.0, 1.5, 0.13, 2.0, 0.1).to_record()
        message = Message(content, dst_node_id=1, message_type="train")
        sizes[length] = message_bytes(message)
    assert 0 < sizes[10_000] - 10_000 < 2_000
    # What surrounds a longer payload is the same but for a digit of its length.
    assert abs((sizes[20_000] - 20_000) - (sizes[10_000] - 10_000)) < 10


Change = Callable[[RecordDict], object]


def foreign(content: RecordDict) -> None:
    content["arrays"] = ArrayRecord({"payload": Array(np.zeros(3))})


def two(content: RecordDict) -> None:
    content.array_records["arrays"]["more"] = Array(np.zeros(3))


def text(content: RecordDict) -> None:
    content.config_records["config"]["round-index"] = "3"


def yes(content: RecordDict) -> None:
    content.config_records["config"]["round-index"] = True


def no_metric(content: RecordDict) -> None:
    del content.metric_records["metrics"]["num-examples"]


def whole_number(content: RecordDict) -> None:
    content.metric_records["metrics"]["num-examples"] = 5


def wrong_kind(content: RecordDict) -> None:
    content["metrics"] = ConfigRecord({})


def broken_raw(content: RecordDict) -> None:
    content["raw"] = ArrayRecord({"count": Array("int64", (1,), "numpy.ndarray", b"not numpy's format")})


def pickled_raw(content: RecordDict) -> None:
    content["raw"] = ArrayRecord({"count": Array("object", (1,), "numpy.ndarray", b"\x80\x04K\x01.")})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda content: content.pop("arrays"), "record 'arrays' is a NoneType"),
        (foreign, "a fedcomp.payload array 'payload' is missing"),
        (two, "must hold one fedcomp.payload array"),
        (text, "field 'round-index' is '3', it must be a int"),
        (yes, "field 'round-index' is True, it must be a int"),
        (no_metric, "field 'num-examples' is None"),
        (whole_number, "field 'num-examples' is 5, it must be a float"),
        (wrong_kind, "record 'metrics' is a ConfigRecord, it must be a MetricRecord"),
        (broken_raw, "raw tensor 'count' cannot be read"),
        (pickled_raw, "raw tensor 'count' cannot be read"),
    ],
)
def test_malformed_replies_are_named(change: Change, named: str) -> None:
    content = REPLY.to_record()
    change(content)
    with pytest.raises(MalformedMessage, match=named):
        TrainReply.from_record(content)


def unequal_parts(content: RecordDict) -> None:
    content.config_records["config"]["part-seeds"] = [1]


def odd_void(content: RecordDict) -> None:
    content.config_records["config"]["void-rounds"] = [1, 2, 3]


def foreign_part(content: RecordDict) -> None:
    content.array_records["parts"]["1"] = Array(np.zeros(3))


def float_versions(content: RecordDict) -> None:
    content.config_records["config"]["part-versions"] = [4.0, 7.0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (unequal_parts, "record 'parts' has 2 arrays, its fields"),
        (odd_void, "must be pairs of first and last round"),
        (foreign_part, "a fedcomp.payload array '1' is missing"),
        (float_versions, r"field 'part-versions' is \[4.0, 7.0\], it must be a list of integers"),
    ],
)
def test_malformed_requests_are_named(change: Change, named: str) -> None:
    content = REQUEST.to_record()
    change(content)
    with pytest.raises(MalformedMessage, match=named):
        TrainRequest.from_record(content)


def test_metrics_are_floats_on_the_wire() -> None:
    metrics = REPLY.to_record()["metrics"]
    assert isinstance(metrics, MetricRecord)
    assert {type(value) for value in metrics.values()} == {float}
