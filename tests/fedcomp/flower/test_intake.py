from __future__ import annotations

import numpy as np
import pytest
from flwr.app import Message, MetricRecord, RecordDict

import fedcomp
from fedcomp.errors import DimMismatch, EmptyMean, InvalidWeight, NonFinite, PayloadError, SeedMismatch
from fedcomp.flower.arrays import difference, layout_of
from fedcomp.flower.intake import Asked, DecodedIntake, MeanIntake
from fedcomp.flower.messages import MalformedMessage
from fedcomp.flower.update import EncodedArrays
from tests.support.flower_app import KINDS, identify, model, record, values

SENT = record(model(KINDS, 1))
LAYOUT = layout_of(SENT, {})
Weight = int | float | list[int]


def asked(position: int = 0) -> Asked:
    identify()
    return Asked(Message(RecordDict({"arrays": SENT}), 5 + position, "train"), position, 40 + position, SENT, LAYOUT)


def update(client: int, *, seed: int) -> EncodedArrays:
    vector, raw = difference(LAYOUT, SENT, record(model(KINDS, 10 + client)))
    return EncodedArrays(fedcomp.compressor("identity").encode(vector, seed=seed), raw)


def reply(to: Asked, encoded: EncodedArrays, **metrics: Weight) -> Message:
    content = RecordDict({"m": MetricRecord(dict(metrics)), "model": encoded.to_record()})
    return Message(content, reply_to=to.message)


def test_the_mean_is_weighted_and_in_one_reply() -> None:
    intake = MeanIntake("n", asked())
    for client, weight in ((0, 1), (1, 3)):
        item, encoded = asked(client), update(client, seed=40 + client)
        intake.take(item, encoded, reply(item, encoded, n=weight, loss=float(client)))
    (mean,) = intake.results()
    assert dict(mean.content.metric_records["metrics"]) == {"n": 4.0, "loss": 0.75}
    found = values(mean.content.array_records["arrays"])
    assert list(found) == list(KINDS)
    first, second = model(KINDS, 10), model(KINDS, 11)
    for name, array in found.items():
        kind = np.dtype(KINDS[name][1])
        assert array.dtype == (kind if kind.kind == "f" else np.float64)
        expected = 0.25 * first[name].astype(np.float64) + 0.75 * second[name].astype(np.float64)
        np.testing.assert_allclose(array, expected, rtol=1e-3 if name == "half" else 1e-6, atol=1e-6)


def test_decoded_replies_are_what_the_app_replied() -> None:
    intake = DecodedIntake("n")
    for client in range(2):
        item, encoded = asked(client), update(client, seed=40 + client)
        intake.take(item, encoded, reply(item, encoded, n=client, loss=1.0))
    results = intake.results()
    for client, message in enumerate(results):
        assert list(message.content) == ["m", "model"]
        found = values(message.content.array_records["model"])
        for name, expected in model(KINDS, 10 + client).items():
            assert found[name].dtype == expected.dtype
            np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-6)


BAD: list[tuple[str, type[PayloadError]]] = [
    ("seed", SeedMismatch),
    ("raw", DimMismatch),
    ("dim", DimMismatch),
    ("damaged", PayloadError),
    ("weight", InvalidWeight),
    ("large", NonFinite),
]


def spoil(kind: str, item: Asked) -> tuple[EncodedArrays, Weight]:
    good = update(1, seed=item.seed)
    huge = fedcomp.compressor("identity").encode(np.full(LAYOUT.dim, 1e6, np.float32), seed=item.seed)
    return {
        "seed": (update(1, seed=item.seed + 1), 1),
        "raw": (EncodedArrays(good.payload, good.raw + b"\0"), 1),
        "dim": (EncodedArrays(fedcomp.compressor("identity").encode(np.ones(3), seed=item.seed), good.raw), 1),
        "damaged": (EncodedArrays(good.payload[:-1] + bytes([good.payload[-1] ^ 1]), good.raw), 1),
        "weight": (good, -5.0),
        "large": (EncodedArrays(huge, good.raw), 1),  # beyond float16
    }[kind]


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(("kind", "error"), BAD)
def test_a_bad_reply_leaves_no_trace(kind: str, error: type[PayloadError], streamed: bool) -> None:
    intakes = [MeanIntake("n", asked()) if streamed else DecodedIntake("n") for _ in range(2)]
    for intake in intakes:
        good = update(0, seed=40)
        intake.take(asked(), good, reply(asked(), good, n=2, loss=1.0))
    item = asked(1)
    encoded, weight = spoil(kind, item)
    message = reply(item, encoded, n=weight, loss=1.0)
    if kind == "large" and streamed:
        # One such update moves a mean out of range, which shows when the mean is asked for.
        intakes[0].take(item, encoded, message)
        with pytest.raises(NonFinite, match="array 'half'"):
            intakes[0].results()
        return
    with pytest.raises(error):
        intakes[0].take(item, encoded, message)
    tried, untouched = (intake.results() for intake in intakes)
    assert [item.content for item in tried] == [item.content for item in untouched]


def test_weights_that_sum_to_zero_are_refused() -> None:
    for intake in (MeanIntake("n", asked()), DecodedIntake("n")):
        for client in range(2):
            item, encoded = asked(client), update(client, seed=40 + client)
            intake.take(item, encoded, reply(item, encoded, n=0))
        with pytest.raises(EmptyMean):
            intake.results()
    intake = DecodedIntake("n")
    for client in range(2):
        item, encoded = asked(client), update(client, seed=40 + client)
        intake.take(item, encoded, reply(item, encoded, n=client))
    assert len(intake.results()) == 2


def test_a_mean_needs_a_weight_and_decoding_does_not() -> None:
    item, encoded = asked(), update(0, seed=40)
    with pytest.raises(InvalidWeight, match="no metric 'n'"):
        MeanIntake("n", asked()).take(item, encoded, reply(item, encoded, loss=1))
    bare = Message(RecordDict({"model": encoded.to_record()}), reply_to=item.message)
    with pytest.raises(MalformedMessage, match="0 MetricRecords"):
        MeanIntake("n", asked()).take(item, encoded, bare)
    for key, message in (("n", reply(item, encoded, loss=1)), ("n", bare), (None, reply(item, encoded, n=-1))):
        intake = DecodedIntake(key)
        intake.take(item, encoded, message)
        assert intake.results() == [message]
