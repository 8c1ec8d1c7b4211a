from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.downlink import ModelPart
from fedcomp.flower.messages import ClientDescription, MalformedMessage, TrainReply, TrainRequest
from fedcomp.flower.sealed import (
    SEALED_STYPE,
    SealedPart,
    is_sealed,
    open_content,
    open_request,
    read_header,
    seal_content,
    seal_request,
)
from fedcomp.sealing.envelope import Direction, Header, Seal
from fedcomp.sealing.errors import Altered, NotSealed, SealingError, WrongSettings

SERVER, SITE = X25519PrivateKey.generate(), X25519PrivateKey.generate()
HEADER = Header(Direction.REPLY, "a-run", 4, "bank", bytes(16))
REPLY = TrainReply(
    payload=b"P" * 100,
    raw={"steps": torch.tensor([3, 2**40]), "mask": torch.tensor([True, False])},
    client="bank",
    round_index=4,
    device="cpu",
    holds_version=-1,
    num_examples=12.0,
    train_loss=0.5,
    vnmse=0.1,
    train_seconds=1.0,
    encode_seconds=2.0,
    exact=b"E" * 50,
)
REQUEST = TrainRequest(
    parts=(ModelPart(2, None, b"whole" * 20, 1), ModelPart(3, 2, b"difference" * 5, 2**64 - 1)),
    raw={"steps": torch.tensor([3])},
    layout="l",
    run="a-run",
    client="bank",
    round_index=4,
    version=3,
    compressor="eden:bits=1",
    encode_seed=2**64 - 1,
    training_seed=7,
    learning_rate=0.1,
    batch_size=20,
    void_rounds=(1, 2),
)


def sending() -> Seal:
    return Seal.to_send(HEADER, sender=SITE, recipient=SERVER.public_key())


def receiving(content: RecordDict) -> Seal:
    return Seal.received(read_header(content)[1], recipient=SERVER, sender=SITE.public_key())


def sealed_reply() -> RecordDict:
    return seal_content(REPLY.to_record(), sending())


def opened(content: RecordDict) -> RecordDict:
    return open_content(content, receiving(content))


def parts(request: TrainRequest) -> list[SealedPart]:
    return [SealedPart.of(part, run=request.run) for part in request.parts]


def sealed_request(request: TrainRequest = REQUEST, settings: str = "s") -> RecordDict:
    return seal_request(request, sending(), parts(request), settings=settings)


def opened_request(content: RecordDict, settings: str = "s") -> TrainRequest:
    return open_request(content, receiving(content), settings=settings)


def arrays(content: RecordDict, name: str) -> ArrayRecord:
    record = content[name]
    assert isinstance(record, ArrayRecord)
    return record


def same_but_raw(one: TrainRequest | TrainReply, other: TrainRequest | TrainReply) -> bool:
    equal = all(torch.equal(tensor, other.raw[name]) for name, tensor in one.raw.items())
    return equal and one.raw.keys() == other.raw.keys() and replace(one, raw={}) == replace(other, raw={})


def test_a_reply_comes_back() -> None:
    content = sealed_reply()
    assert is_sealed(content)
    assert not is_sealed(REPLY.to_record())
    found = TrainReply.from_record(opened(content))
    assert same_but_raw(replace(found, exact=REPLY.exact), REPLY)
    assert "exact" in opened(content)


def test_all_there_is_to_see_are_boxes_and_their_lengths() -> None:
    for content in (sealed_reply(), sealed_request()):
        seen = [array for record in content.array_records.values() for array in record.values()]
        assert len(seen) == 3
        assert {array.stype for array in seen} == {SEALED_STYPE}
        assert not content.config_records
        assert not content.metric_records
    assert len(arrays(sealed_reply(), "arrays")["payload"].data) == len(REPLY.payload) + 16


def test_a_request_comes_back_with_its_parts() -> None:
    assert same_but_raw(opened_request(sealed_request()), REQUEST)
    up_to_date = replace(REQUEST, parts=())
    assert same_but_raw(opened_request(sealed_request(up_to_date)), up_to_date)


def test_a_description_comes_back() -> None:
    description = ClientDescription("bank", 1, 3, "cpu", "0.1", bits=1.5, simulated=True)
    assert ClientDescription.from_record(opened(seal_content(description.to_record(), sending()))) == description


def test_other_settings_are_refused() -> None:
    with pytest.raises(WrongSettings, match="not the server's: the run config was changed on its way"):
        opened_request(sealed_request(settings="t"))


@given(st.data())
def test_any_changed_byte_of_any_box_is_refused(data: st.DataObject) -> None:
    for content, opening in ((sealed_reply(), opened), (sealed_request(), opened_request)):
        name = data.draw(st.sampled_from(sorted(content)))
        key = data.draw(st.sampled_from(sorted(arrays(content, name))))
        box = bytearray(arrays(content, name)[key].data)
        box[data.draw(st.integers(0, len(box) - 1))] ^= data.draw(st.integers(1, 255))
        arrays(content, name)[key].data = bytes(box)
        with pytest.raises(SealingError):
            opening(content)


def array(data: bytes, stype: str = "fedcomp.payload") -> Array:
    return Array(dtype="uint8", shape=(len(data),), stype=stype, data=data)


def change(name: str, record: ArrayRecord | ConfigRecord) -> Callable[[RecordDict], object]:
    return lambda content: content.update({name: record})


ATTACKS: dict[str, tuple[Callable[[RecordDict], object], type[SealingError]]] = {
    "a box is taken away": (lambda content: arrays(content, "arrays").clear(), Altered),
    "a record is taken away": (lambda content: content.pop("exact"), Altered),
    "a box is added": (
        lambda content: arrays(content, "exact").update({"more": arrays(content, "exact")["payload"]}),
        Altered,
    ),
    "two boxes are exchanged": (
        lambda content: content.update({"arrays": content["exact"], "exact": content["arrays"]}),
        Altered,
    ),
    "a plain record is added": (change("config", ConfigRecord({"x": 1})), NotSealed),
    "a box is made plain": (change("exact", ArrayRecord({"payload": array(b"x")})), NotSealed),
    "the envelope is taken away": (lambda content: content.pop("sealed"), NotSealed),
    "a box is another message's": (change("arrays", arrays(sealed_reply(), "arrays")), Altered),
    "the envelope is another message's": (change("sealed", arrays(sealed_reply(), "sealed")), Altered),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_reply_that_was_tampered_with_is_refused(name: str) -> None:
    content = sealed_reply()
    attack, error = ATTACKS[name]
    attack(content)
    with pytest.raises(error):
        opened(content)


def test_model_parts_cannot_be_exchanged_left_out_or_be_of_another_version() -> None:
    content = sealed_request()
    boxes = arrays(content, "parts")
    swapped = ArrayRecord({"0": boxes["1"], "1": boxes["0"]})
    fewer = ArrayRecord({"0": boxes["0"]})
    older = ArrayRecord({"0": boxes["0"], "1": arrays(sealed_request(), "parts")["1"]})
    for wrong in (swapped, fewer, older):
        with pytest.raises(Altered):
            opened_request(RecordDict({**content, "parts": wrong}))
    bare = RecordDict({**content, "parts": ArrayRecord({"0": array(b"x"), "1": array(b"x")})})
    with pytest.raises(NotSealed):
        opened_request(bare)
    # A part that is sealed for another place in the chain does not open, whoever has its key.
    relabelled = replace(REQUEST, parts=(replace(REQUEST.parts[0], version=1), replace(REQUEST.parts[1], base=1)))
    with pytest.raises(Altered, match="model part 1 "):
        opened_request(seal_request(relabelled, sending(), parts(REQUEST), settings="s"))


def test_what_a_site_seals_is_not_trusted_to_be_a_message() -> None:
    for rest in (b"", b"\xff\xff", b"\x0a\x03abc"):
        seal = sending()
        box = seal.head + seal.close("rest", rest)
        content = RecordDict({"sealed": ArrayRecord({"envelope": array(box, SEALED_STYPE)})})
        with pytest.raises(MalformedMessage):
            opened(content)
