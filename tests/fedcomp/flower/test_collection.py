from __future__ import annotations

import logging

import numpy as np
import pytest
from flwr.app import Error, Message, MetricRecord, RecordDict
from flwr.common.constant import ErrorCode

import fedcomp
from fedcomp.flower.arrays import layout_of
from fedcomp.flower.collection import Collection
from fedcomp.flower.intake import Asked, MeanIntake
from fedcomp.flower.mailbox import Failure
from fedcomp.flower.messages import message_bytes
from fedcomp.flower.update import EncodedArrays
from tests.support.flower_app import identify, record

SENT = record({"w": np.zeros(400, np.float32)})
LAYOUT = layout_of(SENT, {})


def asked(position: int) -> Asked:
    identify()
    message = Message(RecordDict({"arrays": SENT}), 900 + position, "train")
    message.metadata.__dict__["_message_id"] = f"message {position}"
    return Asked(message, position, position, SENT, LAYOUT)


def reply(position: int, *, weight: float = 1.0, seed: int | None = None) -> Message:
    codec = fedcomp.compressor("eden:bits=2")
    payload = codec.encode(np.ones(400, np.float32), seed=position if seed is None else seed)
    content = RecordDict({"a": EncodedArrays(payload, b"").to_record(), "m": MetricRecord({"n": weight})})
    return Message(content, reply_to=asked(position).message)


def test_what_cannot_be_used_is_named_and_becomes_an_error_reply(caplog: pytest.LogCaptureFixture) -> None:
    collection = Collection(MeanIntake("n", asked(0)))
    plain = Message(RecordDict({"a": SENT, "m": MetricRecord({"n": 1.0})}), reply_to=asked(4).message)
    nothing = Message(RecordDict(), reply_to=asked(5).message)
    nothing.__dict__["_content"] = None
    own = Message(Error(2, "Traceback\n  line\nValueError: no data\n"), reply_to=asked(3).message)
    with caplog.at_level(logging.WARNING, "flwr.fedcomp"):
        collection.take(asked(0), reply(0))
        collection.take(asked(1), Failure("no reply before the timeout"))
        collection.take(asked(2), reply(2, seed=77))
        collection.take(asked(3), own)
        collection.take(asked(4), plain)
        collection.take(asked(5), nothing)
        collection.take(asked(6), reply(6, weight=float("nan")))
        results = collection.results()
    found = collection.record(round_index=1, compressor="eden:bits=2", dim=400, streamed=True)

    assert found.accepted == 1
    assert [(item.position, item.node_id) for item in found.rejected] == [(i, 900 + i) for i in range(1, 7)]
    reasons = [item.reason for item in found.rejected]
    for reason, expected in zip(
        reasons,
        [
            "no reply before the timeout",
            "SeedMismatch: seed 2 is not the one",
            "client error 2: ValueError: no data",
            "MalformedMessage: reply holds arrays ['w'] and no fedcomp payload; add fedcomp.flower.compression_mod",
            "MalformedMessage: reply has neither content nor error",
            "InvalidWeight: weight is nan",
        ],
        strict=True,
    ):
        assert reason.startswith(expected)
        assert any(expected in line for line in caplog.messages)
    assert "client 2 of the round (node 902) rejected" in caplog.text

    # The client without an answer is left out, as Flower leaves it out; its own error is passed on.
    assert not results[0].has_error()
    assert [item.metadata.reply_to_message_id for item in results[1:]] == [f"message {i}" for i in (2, 3, 4, 5, 6)]
    assert results[2] is own
    assert results[1].error.code == ErrorCode.MOD_FAILED_PRECONDITION
    assert results[1].error.reason == reasons[1]


def test_bytes_are_counted_whether_used_or_not() -> None:
    collection = Collection(MeanIntake("n", asked(0)))
    good, bad = reply(0), reply(1, seed=77)
    plain = Message(RecordDict({"a": SENT}), reply_to=asked(2).message)
    payload = len(EncodedArrays.from_content(good.content).payload)
    total = sum(map(message_bytes, (good, bad, plain)))
    for position, item in enumerate((good, bad, plain)):
        collection.take(asked(position), item)
    found = collection.record(round_index=3, compressor="eden:bits=2", dim=400, streamed=False)
    assert (found.payloads, found.payload_bytes) == (2, 2 * payload)
    assert found.envelope_bytes == total - 2 * payload > 1600
    assert (found.round_index, found.dim, found.streamed) == (3, 400, False)


def test_when_nothing_is_usable_together_all_are_errors() -> None:
    collection = Collection(MeanIntake("n", asked(0)))
    for position in range(3):
        collection.take(asked(position), reply(position, weight=0))
    results = collection.results()
    assert [item.has_error() for item in results] == [True] * 3
    found = collection.record(round_index=1, compressor="eden:bits=2", dim=400, streamed=True)
    assert found.accepted == 0
    assert all(item.reason.startswith("EmptyMean: 3 payloads of weight 0") for item in found.rejected)


def test_without_any_reply_there_is_no_result() -> None:
    collection = Collection(MeanIntake("n", asked(0)))
    collection.take(asked(0), Failure("no reply before the timeout"))
    assert collection.results() == []
