from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from flwr.app import ConfigRecord, Context, Error, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.common.constant import ErrorCode

import fedcomp
from fedcomp.flower import compression_mod
from fedcomp.flower.instructions import RECORD, Instructions
from fedcomp.flower.update import EncodedArrays
from tests.support.flower_app import Values, identify, record

SENT: dict[str, Values] = {"w": np.arange(600, dtype=np.float32), "n": np.array(3, dtype=np.int64)}
REPLIED: dict[str, Values] = {"w": SENT["w"] + np.linspace(-1, 1, 600, dtype=np.float32), "n": np.array(4)}
STEP = torch.from_numpy(REPLIED["w"] - SENT["w"])


def message(compressor: str | None, *, kind: str = "train", seed: int = 7) -> Message:
    identify()
    content = RecordDict({"arrays": record(SENT), "config": ConfigRecord({"lr": 0.1})})
    if compressor is not None:
        content = Instructions(compressor, seed, {"n": "int64"}).added_to(content)
    return Message(content, 5, kind)


def context() -> Context:
    return Context(1, 5, {}, RecordDict(), {})


def replying(content: Callable[[Message], RecordDict]) -> ClientApp:
    app = ClientApp(mods=[compression_mod])

    @app.train()
    def train(msg: Message, ctx: Context) -> Message:
        assert RECORD not in msg.content
        return Message(content(msg), reply_to=msg)

    return app


def trained(_: Message) -> RecordDict:
    return RecordDict({"model": record(REPLIED), "m": MetricRecord({"num-examples": 2})})


def encoded(reply: Message, compressor: str = "eden:bits=4") -> EncodedArrays:
    found = EncodedArrays.from_content(reply.content)
    assert fedcomp.wire.read_header(found.payload).dim == 600
    return found


def test_a_reply_is_encoded_with_the_seed_it_was_told() -> None:
    reply = replying(trained)(message("eden:bits=4", seed=11), context())
    assert list(reply.content) == ["model", "m"]
    assert encoded(reply) == EncodedArrays(
        fedcomp.compressor("eden:bits=4").encode(STEP, seed=11, shapes=[(600,)]), (4).to_bytes(8, "little")
    )


def test_shapes_reach_the_compressor() -> None:
    # A column of large steps among small ones: who knows the shape sees it. powersgd cannot do without.
    before: dict[str, Values] = {"n": SENT["n"], "w": np.zeros((200, 64), np.float32)}
    after: dict[str, Values] = {"n": SENT["n"], "w": np.random.default_rng(1).standard_normal((200, 64), np.float32)}
    after["w"][:, 3] *= 100
    step = after["w"].reshape(-1)
    app = replying(lambda _: RecordDict({"model": record(after)}))
    for spec in ("eden:bits=1,allocation=adaptive", "powersgd:rank=1"):
        sent = message(spec)
        sent.content["arrays"] = record(before)
        payload = EncodedArrays.from_content(app(sent, context()).content).payload
        codec = fedcomp.compressor(spec)
        assert payload == codec.encode(step, seed=7, shapes=[(200, 64)])
        assert spec.startswith("powersgd") or payload != codec.encode(step, seed=7)


@pytest.mark.parametrize("kind", ["train", "train.fast"])
def test_actions_of_train_are_compressed_too(kind: str) -> None:
    app = ClientApp(mods=[compression_mod])
    action = app.train() if kind == "train" else app.train("fast")
    action(lambda msg, _: Message(trained(msg), reply_to=msg))
    encoded(app(message("eden:bits=4", kind=kind), context()))


def test_a_message_without_instructions_passes_as_it_is() -> None:
    reply = replying(trained)(message(None), context())
    assert reply.content.array_records["model"] == record(REPLIED)


def test_an_app_may_empty_the_record_it_is_given() -> None:
    def consuming(msg: Message) -> RecordDict:
        msg.content.array_records["arrays"].to_numpy_ndarrays(keep_input=False)
        return trained(msg)

    encoded(replying(consuming)(message("eden:bits=4"), context()))


def test_an_error_of_the_app_passes_as_it_is() -> None:
    app = ClientApp(mods=[compression_mod, lambda msg, *_: Message(Error(2, "own"), reply_to=msg)])
    app.train()(lambda msg, _: Message(trained(msg), reply_to=msg))
    assert app(message("sign"), context()).error.reason == "own"


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ([{"w": REPLIED["w"]}], "ArraysMismatch: the app's reply lacks arrays ['n']"),
        ([{**REPLIED, "w": SENT["w"][:-1]}], "has shape (599,), the received one (600,)"),
        ([{**REPLIED, "w": SENT["w"] * np.nan}], "NonFinite: the update of array 'w'"),
        ([REPLIED, {}], "holds 2 ArrayRecords"),
        ([], "holds 0 ArrayRecords"),
    ],
)
def test_a_reply_that_cannot_be_compressed_is_an_error_that_says_why(
    arrays: list[dict[str, Values]], reason: str
) -> None:
    def content(_: Message) -> RecordDict:
        return RecordDict({str(number): record(item) for number, item in enumerate(arrays)})

    sent = message("sign")
    sent.metadata.__dict__["_message_id"] = "the id"
    here = context()
    reply = replying(content)(sent, here)
    assert reply.error.code == ErrorCode.MOD_FAILED_PRECONDITION
    assert reason in str(reply.error.reason)
    assert reply.metadata.reply_to_message_id == "the id"
    assert not here.state  # nothing was sent, so nothing is owed


@pytest.mark.parametrize("spec", ["eden:bits=99", "of-the-future"])
def test_an_unknown_compressor_is_said_before_training(spec: str) -> None:
    def never(_: Message) -> RecordDict:
        raise AssertionError("trained in vain")

    assert "ConfigError" in str(replying(never)(message(spec), context()).error.reason)


def test_malformed_instructions_are_an_error() -> None:
    sent = message(None)
    sent.content[RECORD] = ConfigRecord({"compressor": "sign"})
    assert "MalformedMessage" in str(replying(trained)(sent, context()).error.reason)


@pytest.mark.parametrize("spec", ["sign", "topk:fraction=0.02"])
def test_a_biased_compressor_has_error_feedback(spec: str) -> None:
    # What was decoded so far and what is still owed are together all steps so far.
    here, app = context(), replying(trained)
    total = torch.zeros(600)
    for seed in range(4):
        total += fedcomp.decode(encoded(app(message(spec, seed=seed), here)).payload, seed=seed)
    (owed,) = here.state.array_records["fedcomp.residual"].values()
    torch.testing.assert_close(total + torch.from_numpy(owed.numpy()), 4 * STEP, rtol=1e-4, atol=1e-4)
    alone = encoded(app(message(spec, seed=9), context())).payload
    assert alone == fedcomp.compressor(spec).encode(STEP, seed=9)
    assert encoded(app(message(spec, seed=9), here)).payload != alone


def test_a_residual_survives_a_change_of_dtype_in_the_messages() -> None:
    # FedAdam sends float64 from the second round on.
    here, app = context(), replying(trained)
    app(message("sign"), here)
    kept = dict(here.state.array_records["fedcomp.residual"])
    later = message("sign")
    later.content["arrays"] = record({"w": SENT["w"].astype(np.float64), "n": np.array(3.5)})
    app(later, here)
    assert here.state.array_records["fedcomp.residual"].keys() == kept.keys()
    assert here.state.array_records["fedcomp.residual"] != kept


def test_an_unbiased_compressor_keeps_nothing() -> None:
    here = context()
    replying(trained)(message("eden:bits=1"), here)
    assert not here.state
