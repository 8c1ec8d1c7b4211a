"""The in-process engine agrees with the grid of the tests, which is checked against Flower in tests/simulation."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from flwr.app import Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import ServerApp

from dashboard.schemas import RunDetail
from dashboard.store import RunStore
from fedcomp.flower.local_grid import LocalGrid, NotInProcess
from fedcomp.flower.local_run import load_components, run_locally
from fedcomp.home import database_url
from fedcomp.run_config import RunConfig
from tests.support.commands import ROOT
from tests.support.runs import final_model, identify, run_in_process, same, settings

STATEFUL: dict[str, str | int] = {"compressor": "topk:fraction=0.1", "downlink_compressor": "eden:bits=4,scale=mmse"}
OVERSELECTED: dict[str, str | int] = {"clients_per_round": 2, "over_selection": 1}


def found(flower_run_id: int) -> RunDetail:
    with RunStore(database_url()) as store:
        run = store.find_by_flower_run(str(flower_run_id))
    assert run is not None
    return run


def test_the_apps_are_found_as_flower_finds_them() -> None:
    server, client, defaults = load_components()
    assert isinstance(server, ServerApp)
    assert isinstance(client, ClientApp)
    assert defaults == RunConfig().to_mapping()


@pytest.mark.parametrize("changes", [{"strategy": "fedadam"}, STATEFUL, {"mode": "async"}, OVERSELECTED])
def test_a_run_is_the_same_as_on_the_tests_grid(changes: dict[str, str | int]) -> None:
    config = settings(**changes)
    expected, _ = run_in_process(config, clients=4)
    run_locally(config, clients=4, flower_run_id=4711)
    run = found(4711)
    assert run.id != expected.id
    assert run.status == "completed"
    for one, other in zip(run.rounds, expected.rounds, strict=True):
        assert (one.clients, one.accuracy, one.loss) == (other.clients, other.accuracy, other.loss)
        assert one.uplink_payload_bytes == other.uplink_payload_bytes
        assert one.downlink_payload_bytes == other.downlink_payload_bytes
    assert same(final_model(run), final_model(expected))


def grid(app: ClientApp) -> LocalGrid:
    identify()
    return LocalGrid(app, clients=2, run_config={"key": 1}, run_id=7)


def message(node: int) -> Message:
    return Message(RecordDict(), dst_node_id=node, message_type=MessageType.TRAIN)


def test_clients_keep_their_state_and_nothing_else() -> None:
    app = ClientApp()
    contexts: list[Context] = []

    @app.train()
    def train(message: Message, context: Context) -> Message:
        contexts.append(context)
        calls = context.state.metric_records["seen"]["calls"] if "seen" in context.state else 0
        context.state["seen"] = MetricRecord({"calls": int(str(calls)) + 1})
        context.run_config["key"] = 2
        return Message(RecordDict({"seen": context.state["seen"]}), reply_to=message)

    both = grid(app)
    first, second = both.get_node_ids()
    calls = []
    for node in (first, first, second):
        (reply,) = both.send_and_receive([message(node)])
        calls.append(reply.content.metric_records["seen"]["calls"])
    assert calls == [1, 2, 1]
    assert len({id(context) for context in contexts}) == 3
    assert [context.node_config["partition-id"] for context in contexts] == [0, 0, 1]
    assert contexts[2].run_config == {"key": 2}
    assert both._run_config == {"key": 1}


def test_a_client_is_called_when_its_reply_is_looked_for_and_once() -> None:
    app = ClientApp()
    called: list[int] = []

    @app.train()
    def train(message: Message, context: Context) -> Message:
        called.append(message.metadata.dst_node_id)
        return Message(RecordDict(), reply_to=message)

    both = grid(app)
    first, second = both.get_node_ids()
    one, other = both.push_messages([message(first), message(second)])
    assert called == []
    (reply,) = both.pull_messages([other])
    assert reply.metadata.reply_to_message_id == other
    assert called == [second]
    assert list(both.pull_messages([other, "unknown"])) == []
    assert len(list(both.pull_messages([one, other]))) == 1


def test_a_client_that_fails_answers_with_an_error() -> None:
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        context.state["half"] = MetricRecord({"done": 1})
        raise ValueError("no such thing")

    both = grid(app)
    node = next(iter(both.get_node_ids()))
    (reply,) = both.send_and_receive([message(node)])
    assert reply.has_error()
    assert reply.error.reason == "ValueError: no such thing"
    assert node not in both._states


def test_what_only_a_superlink_has_is_refused() -> None:
    with pytest.raises(NotInProcess):
        _ = grid(ClientApp()).run
    with pytest.raises(NotInProcess):
        grid(ClientApp()).set_run(None)  # type: ignore[arg-type]


def start(rounds: int, **changes: str | float) -> subprocess.Popen[bytes]:
    job = {"settings": settings(num_server_rounds=rounds, **changes), "clients": 2, "flower_run_id": 5}
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "fedcomp.flower.local_run", json.dumps(job)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
    )


def wait_for_a_round(process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    with RunStore(database_url()) as store:
        while time.monotonic() < deadline and process.poll() is None:
            run = store.find_by_flower_run("5")
            if run is not None and run.rounds_done:
                return
            time.sleep(0.1)
    process.kill()
    pytest.fail("no round was recorded")


@pytest.mark.parametrize("how", ["SIGTERM", "parent"])
def test_an_interrupted_process_records_that(how: str) -> None:
    with start(100_000) as process:
        try:
            wait_for_a_round(process)
            if how == "parent":
                # The end of its standard input is what it sees of a parent's death.
                assert process.stdin is not None
                process.stdin.close()
            else:
                process.send_signal(signal.Signals[how])
            assert process.wait(60) == 130
        finally:
            process.kill()
    assert found(5).status == "cancelled"


def test_a_run_that_fails_says_why() -> None:
    with start(2, min_clients=3, node_timeout=0.2) as process:
        assert process.wait(120) == 1
    run = found(5)
    assert run.status == "failed"
    assert run.error is not None
    assert "TooFewClients" in run.error
