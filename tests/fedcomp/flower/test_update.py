from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict

from fedcomp.flower.local_grid import through_the_wire
from fedcomp.flower.messages import PAYLOAD_STYPE, MalformedMessage
from fedcomp.flower.update import RAW_STYPE, EncodedArrays, with_arrays
from tests.support.flower_app import identify


def blob(stype: str) -> Array:
    return Array(dtype="uint8", shape=(2,), stype=stype, data=b"ab")


@pytest.mark.parametrize("raw", [b"", b"\x00\x01"])
def test_bytes_survive_the_wire(raw: bytes) -> None:
    identify()
    encoded = EncodedArrays(b"payload", raw)
    record = encoded.to_record()
    assert len(record) == (2 if raw else 1)
    content = RecordDict({"any": record, "metrics": MetricRecord({"loss": 1.0})})
    assert EncodedArrays.from_content(through_the_wire(Message(content, 7, "train")).content) == encoded
    for array in record.values():
        with pytest.raises(TypeError, match="Unsupported serialization type"):
            array.numpy()


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ({}, "holds 0 ArrayRecords"),
        ({"a": {"payload": blob(PAYLOAD_STYPE)}, "b": {}}, "holds 2 ArrayRecords"),
        (
            {"a": {"weight": Array(np.zeros(2))}},
            r"\['weight'\] and no fedcomp payload; add fedcomp.flower.compression_mod",
        ),
        ({"a": {"payload": Array(np.zeros(2))}}, "no fedcomp payload"),
        ({"a": {"payload": blob(PAYLOAD_STYPE), "other": blob(RAW_STYPE)}}, r"\['other', 'payload'\], it may hold"),
        (
            {"a": {"payload": blob(PAYLOAD_STYPE), "raw": blob(PAYLOAD_STYPE)}},
            "it may hold a payload and raw bytes only",
        ),
        ({"a": {"payload": blob(PAYLOAD_STYPE), "raw": blob(RAW_STYPE), "x": blob(RAW_STYPE)}}, "it may hold"),
    ],
)
def test_other_contents_are_malformed(records: dict[str, dict[str, Array]], reason: str) -> None:
    with pytest.raises(MalformedMessage, match=reason):
        EncodedArrays.from_content(RecordDict({key: ArrayRecord(arrays) for key, arrays in records.items()}))


def test_arrays_are_put_in_their_record_and_others_stay() -> None:
    content = RecordDict(
        {"m": MetricRecord({"loss": 1.0}), "model": EncodedArrays(b"x", b"").to_record(), "c": ConfigRecord({"k": 1})}
    )
    arrays = ArrayRecord({"w": Array(np.ones(2))})
    changed = with_arrays(content, arrays)
    assert list(changed) == ["m", "model", "c"]
    assert changed["model"] is arrays
    assert changed["m"] is content["m"]
    assert changed["c"] is content["c"]
