from __future__ import annotations

import math

import pytest
import torch

from dashboard.store import RunStore
from fedcomp.aggregation import MeanEstimate
from fedcomp.flower.messages import TrainReply
from fedcomp.home import database_url
from fedcomp.run_config import RunConfig
from server_app.reporting import Reporter
from server_app.roster import Client
from server_app.rounds import ClientOutcome, RoundOutcome

CLIENT = Client("client-0", 0, 2**63 + 1, "cpu", "0.1.0")
REPLY = TrainReply(b"", {}, "client-0", 1, "cpu", 30.0, 0.5, 0.13, 1.0, 0.1)


def started(store: RunStore) -> Reporter:
    reporter = Reporter(store)
    reporter.start(
        RunConfig(seed=2**62), data_label="data", dim=100, flower_run_id=2**64 - 1, device=torch.device("cpu")
    )
    return reporter


def test_everything_about_a_round_is_kept() -> None:
    used = ClientOutcome(CLIENT, REPLY, payload_bytes=50, envelope_bytes=7, decode_seconds=0.2)
    other = Client("client-1", 1, 5, "cpu", "0.1.0")
    wild = TrainReply(b"", {}, "client-1", 1, "cpu", float("nan"), float("inf"), float("nan"), 1.0, 0.1)
    rejected = ClientOutcome(other, wild, payload_bytes=60, envelope_bytes=8, reject_reason="InvalidWeight: nan")
    mean = MeanEstimate(torch.zeros(100), 30.0, 1, 50)
    outcome = RoundOutcome([used, rejected], mean, {}, downlink_payload_bytes=800, downlink_envelope_bytes=20)
    with RunStore(database_url()) as store:
        reporter = started(store)
        reporter.record(1, outcome, dim=100, accuracy=0.5, loss=1.0, seconds=3.0)
        reporter.checkpoint("/somewhere")
        reporter.complete()
        run = store.find_run(reporter.run_id)
    assert (run.status, run.seed, run.flower_run_id) == ("completed", 2**62, str(2**64 - 1))
    assert run.checkpoint_path == "/somewhere"
    assert run.config["num-server-rounds"] == 12
    assert {"torch", "flwr", "python", "platform", "device"} <= set(run.environment)
    (item,) = run.rounds
    assert (item.clients, item.rejected, item.status) == (1, 1, "partial")
    assert (item.uplink_payload_bytes, item.uplink_envelope_bytes) == (110, 15)
    assert (item.downlink_payload_bytes, item.downlink_envelope_bytes) == (800, 20)
    assert item.bits_per_coordinate == 4.0  # of the accepted payload
    assert item.train_loss == 0.5
    first, second = item.client_results
    assert (first.num_examples, first.node_id, first.reject_reason) == (30, str(2**63 + 1), None)
    assert (second.num_examples, second.reject_reason) == (0, "InvalidWeight: nan")
    assert second.vnmse is not None
    assert math.isnan(second.vnmse)


def test_a_round_without_any_reply_is_skipped() -> None:
    outcome = RoundOutcome([ClientOutcome(CLIENT, reject_reason="no reply before the deadline")])
    with RunStore(database_url()) as store:
        reporter = started(store)
        reporter.record(1, outcome, dim=100, accuracy=float("nan"), loss=float("nan"), seconds=3.0)
        (item,) = store.find_run(reporter.run_id).rounds
    assert item.status == "skipped"
    assert math.isnan(item.bits_per_coordinate)


@pytest.mark.parametrize(
    ("error", "status"),
    [(ValueError("no data"), "failed"), (KeyboardInterrupt(), "cancelled"), (SystemExit(3), "cancelled")],
)
def test_how_a_run_ended_is_kept(error: BaseException, status: str) -> None:
    with RunStore(database_url()) as store:
        reporter = started(store)
        reporter.fail(error)
        run = store.find_run(reporter.run_id)
    assert run.status == status
    assert run.error is not None
    assert run.error.startswith(type(error).__name__)


def test_a_failure_before_the_start_has_nothing_to_close() -> None:
    with RunStore(database_url()) as store:
        Reporter(store).fail(ValueError())
        assert store.list_runs() == []
