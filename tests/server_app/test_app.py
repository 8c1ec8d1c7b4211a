"""Whole runs of the server app against real client apps, in one process."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects
from safetensors.torch import load_file

import fedcomp
from client_app.app import app as client_app
from dashboard.store import RunStore
from fedcomp.errors import ConfigError, FedcompError
from fedcomp.flower.messages import TrainReply, TrainRequest
from fedcomp.home import database_url, home
from server_app.app import main
from server_app.roster import TooFewClients
from server_app.secret import run_secret
from tests.support.in_process_grid import InProcessGrid, Tamper
from tests.support.runs import BUFFERS, run_in_process, settings
from tests.support.tiny_task import BufferTask, TinyTask

DIM = 8 * 40 + 40 + 40 * 2 + 2


def final_model(path: str | None) -> dict[str, torch.Tensor]:
    assert path is not None
    return dict(load_file(Path(path) / "model.safetensors"))


def test_a_run_learns_and_is_recorded() -> None:
    run, grid = run_in_process(settings(name="first", compressor="eden:bits=4"))
    assert (run.name, run.status, run.rounds_done, run.num_rounds) == ("first", "completed", 3, 3)
    assert (run.dim, run.data_label, run.flower_run_id) == (DIM, TinyTask.data_label, "77")
    assert run.last_accuracy is not None
    assert run.last_accuracy > 0.9
    for item in run.rounds:
        assert (item.clients, item.rejected, item.status) == (3, 0, "ok")
        assert [client.client for client in item.client_results] == ["client-0", "client-1", "client-2"]
        assert item.bits_per_coordinate == pytest.approx(8 * item.uplink_payload_bytes / (3 * DIM))
        for client in item.client_results:
            assert client.num_examples == 40
            assert client.vnmse is not None
            assert 0 < client.vnmse < 0.05
            assert client.envelope_bytes > 0
            assert client.device == "cpu"
    # Every byte that came back in a training reply is counted, either as payload or as envelope.
    queries = 3
    assert grid.bytes_back > sum(item.uplink_payload_bytes + item.uplink_envelope_bytes for item in run.rounds)
    per_reply = sum(item.uplink_payload_bytes + item.uplink_envelope_bytes for item in run.rounds) / 9
    assert grid.bytes_back < per_reply * (9 + queries)


def test_the_codec_is_what_travels() -> None:
    # Remove the codec and these sizes, which Flower itself counted, cannot come out.
    small, _ = run_in_process(settings(compressor="eden:bits=1"))
    large, grid = run_in_process(settings(compressor="identity"))
    assert small.total_uplink_payload_bytes == 9 * (32 + 8 + 2 * (4 + 256 // 8))
    assert large.total_uplink_payload_bytes == 9 * (32 + 4 * DIM)
    requests = [message for message in grid.pushed if "parts" in message.content]
    assert {TrainRequest.from_record(item.content).compressor for item in requests} == {"identity"}


def test_every_client_and_round_has_its_own_seeds() -> None:
    _, grid = run_in_process(settings())
    requests = [TrainRequest.from_record(item.content) for item in grid.pushed if "parts" in item.content]
    assert len({item.encode_seed for item in requests}) == len({item.training_seed for item in requests}) == 9


def test_a_correlated_cohort_shares_its_seed_and_everyone_has_a_rank() -> None:
    run, grid = run_in_process(settings(compressor="correlated:bits=4"))
    requests = [TrainRequest.from_record(item.content) for item in grid.pushed if "parts" in item.content]
    for round_index in (1, 2, 3):
        cohort = [item for item in requests if item.round_index == round_index]
        assert len({item.encode_seed for item in cohort}) == 1
        assert [item.compressor for item in cohort] == [f"correlated:bits=4,clients=3,rank={rank}" for rank in range(3)]
    assert len({item.encode_seed for item in requests}) == 3
    assert run.last_accuracy is not None
    assert run.last_accuracy > 0.9


def test_powersgd_gets_the_shapes() -> None:
    run, _ = run_in_process(settings(compressor="powersgd:rank=2"))
    assert run.status == "completed"
    # Of the two matrices, 40×8 and 2×40, only the first shrinks at rank 2.
    assert run.total_uplink_payload_bytes == 9 * (32 + 9 + 4 * (2 * (40 + 8) + 40 + 80 + 2))


def test_a_run_repeats_to_the_bit_and_another_seed_does_not() -> None:
    first, _ = run_in_process(settings(seed=5))
    again, _ = run_in_process(settings(seed=5))
    other, _ = run_in_process(settings(seed=6))
    one, two, three = (final_model(run.checkpoint_path) for run in (first, again, other))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], three[name]) for name in one)


def test_another_host_secret_gives_other_rotations(monkeypatch: pytest.MonkeyPatch) -> None:
    def seeds() -> set[int]:
        _, grid = run_in_process(settings(num_server_rounds=1))
        return {TrainRequest.from_record(i.content).encode_seed for i in grid.pushed if "parts" in i.content}

    monkeypatch.setenv("FEDCOMP_RUN_SECRET", "a secret of sixteen bytes or more")
    first = seeds()
    assert first == seeds()
    monkeypatch.setenv("FEDCOMP_RUN_SECRET", "another secret of that length")
    assert not first & seeds()


def test_no_secret_travels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDCOMP_RUN_SECRET")
    run, grid = run_in_process(settings())
    host_secret = (home() / "host-secret").read_bytes()
    secrets = [host_secret, host_secret.hex().encode(), run_secret(1, home()), run_secret(1, home()).hex().encode()]
    sent = b"".join(item.deflate() for message in grid.pushed for item in get_all_nested_objects(message).values())
    kept = run.model_dump_json().encode()
    assert not [secret for secret in secrets if secret in sent or secret in kept]


def test_the_mean_of_what_was_sent_is_what_is_applied() -> None:
    kept: list[tuple[TrainReply, int]] = []

    def keep(node: int) -> Tamper:
        def look(message: Message) -> Message:
            if "metrics" in message.content:
                kept.append((TrainReply.from_record(message.content), node))
            return message

        return look

    run, grid = run_in_process(settings(num_server_rounds=1), tamper={1000 + i: keep(i) for i in range(3)})
    requests = {
        TrainRequest.from_record(i.content).client: TrainRequest.from_record(i.content)
        for i in grid.pushed
        if "parts" in i.content
    }
    start = TinyTask().build_model(seed=1)
    layout = fedcomp.VectorSpec.from_state_dict(start.state_dict())
    estimator = fedcomp.MeanEstimator(layout.dim)
    for reply, _ in kept:
        estimator.add(reply.payload, weight=reply.num_examples, seed=requests[reply.client].encode_seed)
    expected = layout.flatten(start.state_dict()) + estimator.result().mean
    found = layout.flatten(final_model(run.checkpoint_path))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-7)


def test_buffers_ties_and_scalars_survive_a_run() -> None:
    run, _ = run_in_process(settings(task=BUFFERS, batch_size=10))
    assert run.status == "completed"
    assert run.last_accuracy is not None
    assert run.last_accuracy > 0.8
    model = final_model(run.checkpoint_path)
    # 40 examples in batches of 10 are 4 batches a round, and each of 3 rounds continues from the mean of the last.
    assert int(model["norm.num_batches_tracked"]) == 12
    assert model["mask"].tolist() == [True] * 7 + [False]
    assert "second.weight" not in model  # tied: stored once
    assert set(model) == set(BufferTask().build_model(seed=1).state_dict()) - {"second.weight"}


def in_training(change: Tamper) -> Tamper:
    """Leave everything but replies to training alone."""

    def tamper(message: Message) -> Message | None:
        return change(message) if message.has_content() and "metrics" in message.content else message

    return tamper


def damage(message: Message) -> Message:
    array = message.content.array_records["arrays"]["payload"]
    array.data = array.data[:-1] + bytes([array.data[-1] ^ 1])
    return message


def claim(key: str, value: float) -> Tamper:
    def change(message: Message) -> Message:
        message.content.metric_records["metrics"][key] = value
        return message

    return in_training(change)


def report(key: str, value: str | int) -> Tamper:
    def change(message: Message) -> Message:
        message.content.config_records["config"][key] = value
        return message

    return in_training(change)


def drop(record: str) -> Tamper:
    def change(message: Message) -> Message:
        del message.content[record]
        return message

    return in_training(change)


def crash(message: Message) -> Message:
    return Message(Error(2, "Traceback\n\nValueError: no data"), reply_to=message)


def silence(message: Message) -> None:
    del message


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (in_training(damage), "ChecksumMismatch: payload has checksum"),
        (claim("num-examples", float("nan")), "InvalidWeight: weight is nan"),
        (claim("num-examples", -5.0), "InvalidWeight: weight is -5.0"),
        (drop("arrays"), "MalformedMessage: record 'arrays'"),
        (drop("metrics"), "MalformedMessage: record 'metrics'"),
        (report("round-index", 9), "reply is of client-1, round 9"),
        (report("client", "client-0"), "reply is of client-0"),
        (in_training(crash), "client error 2: ValueError: no data"),
    ],
)
def test_a_bad_client_is_rejected_by_name_and_the_round_goes_on(change: Tamper, reason: str) -> None:
    run, _ = run_in_process(settings(num_server_rounds=2), tamper={1001: change})
    assert run.status == "completed"
    for item in run.rounds:
        assert (item.clients, item.rejected, item.status) == (2, 1, "partial")
        reasons = {client.client: client.reject_reason for client in item.client_results}
        assert reasons["client-0"] is reasons["client-2"] is None
        assert str(reasons["client-1"]).startswith(reason)


def test_a_silent_client_does_not_hold_up_the_run() -> None:
    run, _ = run_in_process(settings(num_server_rounds=1, round_timeout=0.3), tamper={1002: in_training(silence)})
    (item,) = run.rounds
    assert {client.client: client.reject_reason for client in item.client_results}["client-2"] == (
        "no reply before the deadline"
    )
    assert item.clients == 2


def test_when_all_fail_the_model_is_kept_and_the_round_is_skipped() -> None:
    change = in_training(damage)
    run, _ = run_in_process(settings(num_server_rounds=2), tamper=dict.fromkeys((1000, 1001, 1002), change))
    assert [item.status for item in run.rounds] == ["skipped", "skipped"]
    start = TinyTask().build_model(seed=1).state_dict()
    assert all(torch.equal(value, start[name]) for name, value in final_model(run.checkpoint_path).items())


def test_a_cohort_is_part_of_the_clients() -> None:
    # Each of four clients is in a cohort of two with probability 1/2: one is in none of 20 once in 260,000 secrets.
    run, _ = run_in_process(settings(clients_per_round=2, num_server_rounds=20), clients=4)
    cohorts = [tuple(client.client for client in item.client_results) for item in run.rounds]
    assert all(len(cohort) == 2 for cohort in cohorts)
    assert len(set(cohorts)) > 1
    assert {name for cohort in cohorts for name in cohort} == {f"client-{index}" for index in range(4)}


@pytest.mark.parametrize("strategy", ["fedavgm", "fedadam", "fedyogi"])
def test_every_strategy_learns(strategy: str) -> None:
    rate = 1.0 if strategy == "fedavgm" else 0.05
    run, _ = run_in_process(settings(strategy=strategy, server_learning_rate=rate, num_server_rounds=5))
    assert run.strategy == strategy
    assert run.best_accuracy is not None
    assert run.best_accuracy > 0.9


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"compressor": "eden:bits=12"}, "bits is 12"),
        ({"compressor": "zip"}, "unknown compressor 'zip'"),
        ({"task": "cifar"}, "unknown task 'cifar'"),
        ({"server_schedule": "triangle"}, "server-schedule"),
        ({"local_schedule": "step:every=x"}, "local-schedule"),
        ({"learning_rate": -1.0}, "learning-rate is -1.0"),
        ({"learnin_rate": 1.0}, "unknown key 'learnin-rate'"),
        ({"downlink_compressor": "eden:bits=0.3"}, "eden:bits=0.3"),
    ],
)
def test_wrong_settings_are_told_before_anybody_waits(change: dict[str, str | float], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        run_in_process(settings(**change))
    with RunStore(database_url()) as store:
        assert store.list_runs() == []


def test_too_few_clients_fail_the_run_with_the_reason() -> None:
    with pytest.raises(TooFewClients, match=r"3 clients answered within 0\.3 s, min-clients is 5"):
        run_in_process(settings(min_clients=5, node_timeout=0.3))
    with RunStore(database_url()) as store:
        run = store.find_run("latest")
    assert run.status == "failed"
    assert run.error is not None
    assert run.error.startswith("TooFewClients: 3 clients")


def test_a_diverged_client_says_where() -> None:
    run, _ = run_in_process(settings(learning_rate=1e38, local_epochs=20, num_server_rounds=1))
    (item,) = run.rounds
    assert item.status == "skipped"
    assert all("NonFinite: x[" in str(client.reject_reason) for client in item.client_results)


def test_errors_of_the_product_are_fedcomp_errors() -> None:
    assert issubclass(TooFewClients, FedcompError)


@pytest.mark.parametrize(
    ("compressor", "feedback", "said"),
    [
        ("sign", "auto", "clients keep what their encodings lose"),
        ("sign", "off", "sign is biased and error-feedback is off"),
        ("qsgd", "auto", None),
        ("eden:bits=4", "on", "clients keep what their encodings lose"),
    ],
)
def test_what_happens_to_lost_parts_is_said(
    compressor: str, feedback: str, said: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    config = settings(compressor=compressor, error_feedback=feedback, num_server_rounds=1, log_level="info")
    run, _ = run_in_process(config)
    assert run.rounds[0].status == "ok"
    printed = capsys.readouterr().out
    assert ("error-feedback" in printed) == (said is not None)
    assert said is None or said in printed


def test_node_ids_do_not_matter() -> None:
    config = settings(seed=5)
    first, _ = run_in_process(config)
    grid = InProcessGrid(
        client_app,
        {900 - i: {"partition-id": i, "num-partitions": 3} for i in range(3)},
        config,
    )
    main(grid, Context(run_id=78, node_id=1, node_config={}, state=RecordDict(), run_config=config))
    with RunStore(database_url()) as store:
        second = store.find_run("latest")
    one, two = final_model(first.checkpoint_path), final_model(second.checkpoint_path)
    assert all(torch.equal(one[name], two[name]) for name in one)
