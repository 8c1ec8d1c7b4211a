from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.clientapp.typing import Mod
from flwr.serverapp import Grid
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg, FedMedian, Strategy
from flwr.supercore.run import Run

import fedcomp
from fedcomp.errors import ConfigError, VectorSpecError
from fedcomp.flower import CompressedGrid, compression_mod
from fedcomp.flower.instructions import RECORD, Instructions
from tests.support.flower_app import (
    FLOATS,
    compressed,
    flat,
    identify,
    in_training,
    initial,
    is_evaluate,
    model,
    nodes,
    record,
    start,
    weighing,
)
from tests.support.in_process_grid import InProcessGrid


def instructions(grid: InProcessGrid) -> list[Instructions]:
    found = [Instructions.taken_from(RecordDict(dict(item.content))) for item in grid.pushed if not is_evaluate(item)]
    return [item for item in found if item is not None]


def test_every_message_has_a_seed_of_its_own() -> None:
    strategy, inner = FedAvg(), nodes(3)
    start(strategy, compressed(inner, "eden:bits=4", strategy), FLOATS, 2)
    told = instructions(inner)
    assert len({item.seed for item in told}) == len(told) == 6
    assert {item.compressor.split(",")[0] for item in told} == {"eden:bits=4"}
    # The same secret repeats a run to the bit, another does not.
    again, other = FedAvg(), FedAvg()
    repeated = nodes(3)
    start(again, compressed(repeated, "eden:bits=4", again), FLOATS, 2)
    assert instructions(repeated) == told
    seeds = {item.seed for item in told}
    for _ in range(2):
        drawn = nodes(3)
        start(other, CompressedGrid(drawn, "eden:bits=4", strategy=other), FLOATS, 2)
        seeds |= {item.seed for item in instructions(drawn)}
    assert len(seeds) == 18


def test_a_cohort_shares_its_seed_where_the_scheme_wants_it() -> None:
    strategy, inner = FedAvg(), nodes(3)
    start(strategy, compressed(inner, "correlated:bits=2", strategy), FLOATS, 2)
    told = instructions(inner)
    assert [item.compressor for item in told] == [f"correlated:bits=2,clients=3,rank={i}" for i in range(3)] * 2
    assert [item.seed for item in told] == [told[0].seed] * 3 + [told[3].seed] * 3
    assert told[0].seed != told[3].seed


def test_correlated_clients_err_less_together() -> None:
    # Five clients that send the same vector: their rounding errors cancel, independent ones do not.
    errors = {}
    for spec in ("correlated:bits=3", "hadamard:bits=3"):
        strategy, inner = FedAvg(), nodes(5)
        inner.nodes = {node: {"partition-id": 0} for node in inner.nodes}
        found = start(strategy, compressed(inner, spec, strategy), FLOATS, 1)
        single = nodes(5)
        single.nodes = inner.nodes
        errors[spec] = np.linalg.norm(flat(found.arrays) - flat(start(FedAvg(), single, FLOATS, 1).arrays))
    assert errors["correlated:bits=3"] < 0.7 * errors["hadamard:bits=3"]


def damaged(reply: Message) -> Message:
    array = reply.content.array_records["arrays"]["payload"]
    array.data = array.data[:-1] + bytes([array.data[-1] ^ 1])
    return reply


def after_first(change: Callable[[RecordDict, Message], Message | None]) -> Callable[[Message], Message | None]:
    """Return a function that leaves the first reply, and maps its content and each later one to something else."""
    kept: list[RecordDict] = []

    def changed(reply: Message) -> Message | None:
        kept.append(reply.content)
        return change(kept[0], reply) if len(kept) > 1 else reply

    return changed


def replayed(first: RecordDict, later: Message) -> Message:
    later.content["arrays"] = first["arrays"]
    return later


@pytest.mark.parametrize("make", [FedAvg, FedMedian, flower.FedAdam])
def test_bad_clients_neither_stop_nor_move_a_round(make: Callable[[], Strategy]) -> None:
    strategy, inner = make(), nodes(6)
    inner.tamper |= {
        1002: in_training(damaged),
        1003: in_training(weighing(-5.0)),
        1004: in_training(weighing(float("nan"))),
        1005: in_training(after_first(replayed)),
    }
    grid = compressed(inner, "identity", strategy)
    found = start(strategy, grid, FLOATS, 2)
    reasons = [{item.node_id: item.reason.split(":")[0] for item in each.rejected} for each in grid.rounds]
    bad = {1002: "ChecksumMismatch", 1003: "InvalidWeight", 1004: "InvalidWeight"}
    assert reasons == [bad, {**bad, 1005: "SeedMismatch"}]
    assert [item.accepted for item in grid.rounds] == [3, 2]
    # As if they had not replied.
    without = nodes(6, ())
    without.tamper |= {node: in_training(lambda _: None) for node in bad}
    without.tamper[1005] = in_training(after_first(lambda *_: None))
    expected = flat(start(make(), without, FLOATS, 2).arrays)
    np.testing.assert_allclose(flat(found.arrays), expected, rtol=1e-5)


def test_clients_without_the_mod_are_told_so() -> None:
    strategy = FedAvg()
    ignore: list[Mod] = [lambda message, context, app: app(without_instructions(message), context)]
    grid = compressed(nodes(2, ignore), "eden:bits=4", strategy)
    assert len(start(strategy, grid, FLOATS, 1).arrays) == 0
    assert {item.reason for item in grid.rounds[0].rejected} == {
        "MalformedMessage: reply holds arrays ['bias', 'scale', 'weight'] and no fedcomp payload; add "
        "fedcomp.flower.compression_mod to the ClientApp's mods"
    }
    assert (grid.rounds[0].payloads, grid.rounds[0].bits_per_coordinate) == (0, None)


def without_instructions(message: Message) -> Message:
    # The test's app insists on the records it knows; most apps do not mind one more.
    message.content.pop(RECORD, None)
    return message


def test_a_client_with_the_mod_works_without_the_grid() -> None:
    plain, modded = (start(FedAvg(), nodes(3, mods), FLOATS, 2) for mods in ((), (compression_mod,)))
    assert np.array_equal(flat(plain.arrays), flat(modded.arrays))


def test_nothing_but_train_messages_with_one_array_record_is_touched(caplog: pytest.LogCaptureFixture) -> None:
    inner = nodes(2)
    grid = compressed(inner, "sign", FedAvg())
    arrays, config = initial(FLOATS), ConfigRecord()
    identify()
    messages = [Message(RecordDict({"arrays": arrays, "config": config}), node, "evaluate") for node in inner.nodes]
    replies = list(grid.send_and_receive(messages=messages, timeout=1))
    assert [sorted(reply.content) for reply in replies] == [["metrics"]] * 2
    two = Message(RecordDict({"arrays": arrays, "more": arrays}), 1000, "train")
    with caplog.at_level(logging.WARNING, "flwr.fedcomp"):
        grid.send_and_receive(messages=iter([two]))
    assert caplog.messages == ["a train message holds 2 ArrayRecords, not one: it and its reply travel uncompressed"]
    assert all(RECORD not in message.content for message in inner.pushed)
    assert list(grid.send_and_receive(messages=[], timeout=0.01)) == []
    assert grid.rounds == ()


def test_train_and_other_messages_may_be_sent_together() -> None:
    inner = nodes(2)
    grid = compressed(inner, "identity", FedAvg())
    content = RecordDict({"arrays": initial(FLOATS), "config": ConfigRecord()})
    identify()
    messages = [Message(content, 1000, "evaluate"), Message(content, 1001, "train")]
    first, second = grid.send_and_receive(messages=messages, timeout=1)
    assert set(first.content) == {"metrics"}
    assert set(second.content) == {"arrays", "metrics"}
    assert [item.accepted for item in grid.rounds] == [1]
    assert RECORD not in content


def test_a_client_that_does_not_answer_is_left_out_at_the_timeout() -> None:
    strategy, inner = FedAvg(), nodes(3)
    inner.tamper[1001] = lambda _: None
    grid = compressed(inner, "identity", strategy)
    identify()
    content = RecordDict({"arrays": initial(FLOATS), "config": ConfigRecord()})
    messages = [Message(content, node, "train") for node in inner.nodes]
    (mean,) = grid.send_and_receive(messages=messages, timeout=0.1)
    assert mean.content.metric_records["metrics"]["num-examples"] == 40
    (left_out,) = grid.rounds[0].rejected
    assert (left_out.position, left_out.node_id, left_out.reason) == (1, 1001, "no reply before the timeout")


def test_arrays_that_differ_between_clients_are_never_one_mean() -> None:
    strategy, inner = FedAvg(), nodes(2)
    grid = compressed(inner, "identity", strategy)
    identify()
    models = [record(model(FLOATS, seed)) for seed in (1, 2)]
    messages = [
        Message(RecordDict({"arrays": item, "config": ConfigRecord()}), node, "train")
        for item, node in zip(models, inner.nodes, strict=True)
    ]
    replies = list(grid.send_and_receive(messages=messages, timeout=1))
    assert len(replies) == 2
    assert not grid.rounds[0].streamed
    for client, (item, reply) in enumerate(zip(models, replies, strict=True)):
        own = flat(record(model(FLOATS, 100 + client)))
        np.testing.assert_allclose(flat(reply.content.array_records["arrays"]), (flat(item) + own) / 2, rtol=1e-5)


def test_the_choice_can_be_forced() -> None:
    forced = CompressedGrid(nodes(2), "sign", strategy=FedMedian(), stream=True)
    start(FedMedian(), forced, FLOATS, 1)
    assert forced.rounds[0].streamed
    unknown = CompressedGrid(nodes(2), "sign")
    start(FedAvg(), unknown, FLOATS, 1)
    assert not unknown.rounds[0].streamed


def test_bad_settings_are_named() -> None:
    with pytest.raises(ConfigError, match="unknown compressor 'zip'"):
        CompressedGrid(nodes(1), "zip")
    with pytest.raises(ConfigError, match="secret is empty"):
        CompressedGrid(nodes(1), "sign", secret=b"")
    with pytest.raises(ConfigError, match="stream is True with strategy None, which has no weighted_by_key"):
        CompressedGrid(nodes(1), "sign", stream=True)
    strategy = FedAvg()
    grid = compressed(nodes(2), "sign", strategy)
    complex_model = ArrayRecord([np.ones(3, np.complex64)])
    with pytest.raises(VectorSpecError, match="array '0' is complex64"):
        strategy.start(grid=grid, initial_arrays=complex_model, num_rounds=1)


def test_a_round_that_failed_half_way_does_not_give_its_seeds_to_the_next() -> None:
    strategy, inner = FedAvg(), nodes(2)
    grid = compressed(inner, "sign", strategy)
    identify()

    def messages() -> list[Message]:
        content = RecordDict({"arrays": initial(FLOATS), "config": ConfigRecord()})
        return [Message(content, node, "train") for node in inner.nodes]

    failing = messages()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inner, "push_messages", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            grid.send_and_receive(messages=failing)
    grid.send_and_receive(messages=messages())
    lost = {Instructions.taken_from(item.content).seed for item in failing}  # type: ignore[union-attr]
    assert not lost & {item.seed for item in instructions(inner)}


def test_bytes_are_those_that_came_and_a_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    strategy, inner = FedAvg(fraction_evaluate=0.0), nodes(3)
    grid = compressed(inner, "eden:bits=2", strategy)
    with caplog.at_level(logging.INFO, "flwr.fedcomp"):
        start(strategy, grid, FLOATS, 2)
    first, second = grid.rounds
    assert first.payload_bytes + first.envelope_bytes + second.payload_bytes + second.envelope_bytes == inner.bytes_back
    assert (first.payloads, first.dim, first.compressor) == (3, 64 * 24 + 24 + 1, "eden:bits=2")
    one = len(fedcomp.compressor("eden:bits=2").encode(np.ones(first.dim, np.float32), seed=1))
    assert first.payload_bytes == pytest.approx(3 * one, rel=0.05)
    assert [line for line in caplog.messages if line.startswith("round")] == [str(first), str(second)]
    assert [item.round_index for item in grid.rounds] == [1, 2]


class Recording(InProcessGrid):
    """Notes what is called."""

    def set_run(self, run: object) -> None:
        self.__dict__["run_set"] = run

    @property
    def run(self) -> Run:
        found: Run = self.__dict__["run_set"]
        return found

    def create_message(self, *arguments: object) -> Message:
        self.__dict__["created"] = arguments
        return Message(RecordDict(), 1, "query")


def test_everything_else_is_the_inner_grid() -> None:
    plain = nodes(2)
    inner = Recording(plain.client_app, plain.nodes, {})
    grid = CompressedGrid(inner, "sign", strategy=FedAvg())
    assert isinstance(grid, Grid)
    run: object = object()
    grid.set_run(run)  # type: ignore[arg-type]
    assert grid.run is run
    assert list(grid.get_node_ids()) == [1000, 1001]
    assert [node.node_id for node in grid.get_nodes()] == [1000, 1001]
    grid.create_message(RecordDict(), "query", 1, "group", 3.0)
    assert inner.__dict__["created"] == (RecordDict(), "query", 1, "group", 3.0)
    content = RecordDict({"arrays": initial(FLOATS), "config": ConfigRecord()})
    (identifier,) = grid.push_messages([Message(content, 1000, "train")])
    (reply,) = grid.pull_messages([identifier])
    assert set(reply.content.array_records["arrays"]) == set(FLOATS)


def test_the_package_needs_no_server_app_and_no_client_app() -> None:
    # An app's own modules may have these names; importing ours in their place would run the wrong code.
    script = (
        "import sys, fedcomp.flower\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('server_app', 'client_app', 'dashboard')])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
