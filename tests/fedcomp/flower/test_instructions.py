from __future__ import annotations

import pytest
from flwr.app import ConfigRecord, Message, MetricRecord, RecordDict

from fedcomp.flower.instructions import RECORD, Instructions
from fedcomp.flower.local_grid import through_the_wire
from fedcomp.flower.messages import MalformedMessage
from tests.support.flower_app import identify


@pytest.mark.parametrize("raw", [{}, {"steps": "int64", "mask": "bool"}])
def test_instructions_survive_the_wire(raw: dict[str, str]) -> None:
    identify()
    sent = Instructions("correlated:bits=2,clients=3,rank=1", 2**64 - 1, raw)
    content = RecordDict({"config": ConfigRecord({"lr": 0.1})})
    arrived = through_the_wire(Message(sent.added_to(content), 7, "train")).content
    assert list(content) == ["config"]
    assert list(arrived) == ["config", RECORD]
    assert Instructions.taken_from(arrived) == sent
    assert list(arrived) == ["config"]
    assert Instructions.taken_from(arrived) is None


@pytest.mark.parametrize(
    "record",
    [
        MetricRecord({"seed": 1}),
        ConfigRecord({"compressor": "sign", "raw-names": [], "raw-dtypes": []}),
        ConfigRecord({"compressor": "sign", "seed": 1.0, "raw-names": [], "raw-dtypes": []}),
        ConfigRecord({"compressor": 1, "seed": 1, "raw-names": [], "raw-dtypes": []}),
        ConfigRecord({"compressor": "sign", "seed": 1, "raw-dtypes": []}),
        ConfigRecord({"compressor": "sign", "seed": 1, "raw-names": []}),
    ],
)
def test_other_records_are_malformed_and_still_taken_out(record: ConfigRecord | MetricRecord) -> None:
    content = RecordDict({RECORD: record})
    with pytest.raises(MalformedMessage, match="align the versions"):
        Instructions.taken_from(content)
    assert not content
