from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest
import torch

from dashboard.store import RunStore
from fedcomp.aggregation import MeanEstimate
from fedcomp.flower.messages import TrainReply
from fedcomp.home import database_url
from fedcomp.run_config import RunConfig
from server_app.budgets import Budget
from server_app.outcomes import ClientOutcome, RoundOutcome
from server_app.reporting import Reporter, RoundTest
from server_app.roster import Client

CLIENT = Client("client-0", 0, 2**63 + 1, "cpu", "0.1.0")
REPLY = TrainReply(b"", {}, "client-0", 1, "cpu", -1, 30.0, 0.5, 0.13, 1.0, 0.1)


TEST = RoundTest(0.5, 1.0, update_norm=2.5, rolled_back=False, server_seconds=0.25, evaluate_seconds=0.5)


def started(store: RunStore) -> Reporter:
    reporter = Reporter(store)
    reporter.start(
        RunConfig(seed=2**62), data_label="data", dim=100, flower_run_id=2**64 - 1, device=torch.device("cpu")
    )
    return reporter


def test_everything_about_a_round_is_kept() -> None:
    used = ClientOutcome(
        CLIENT, reply=REPLY, payload_bytes=50, envelope_bytes=7, decode_seconds=0.2, downlink_payload_bytes=800
    )
    other, third = (Client(f"client-{i}", i, 4 + i, "cpu", "0.1.0") for i in (1, 2))
    wild = TrainReply(b"", {}, "client-1", 1, "cpu", -1, float("nan"), float("inf"), float("nan"), 1.0, 0.1)
    rejected = ClientOutcome(
        other,
        "rejected",
        "InvalidWeight: nan",
        reply=wild,
        payload_bytes=60,
        envelope_bytes=8,
        budget=Budget(4.5, "rule"),
    )
    # client-1 has a row already; client-2 was not asked this time.
    late = [ClientOutcome(who, "late", "too late", payload_bytes=1000, round_asked=0) for who in (other, third)]
    mean = MeanEstimate(torch.zeros(100), 30.0, 1, 50)
    outcome = RoundOutcome(1, 5, time.perf_counter() - 3, wanted=2, outcomes=[used, rejected], late=late, mean=mean)
    with RunStore(database_url()) as store:
        reporter = started(store)
        reporter.record(outcome, TEST)
        reporter.checkpoint("/somewhere")
        reporter.complete("enough")
        run = store.find_run(reporter.run_id)
    assert (run.status, run.seed, run.flower_run_id) == ("completed", 2**62, str(2**64 - 1))
    assert run.stop_reason == "enough"
    assert run.checkpoint_path == "/somewhere"
    assert run.config["num-server-rounds"] == 12
    assert {"torch", "flwr", "python", "platform", "device"} <= set(run.environment)
    (item,) = run.rounds
    assert (item.asked, item.clients, item.rejected, item.late, item.status) == (2, 1, 1, 2, "partial")
    assert (item.uplink_payload_bytes, item.uplink_envelope_bytes) == (2110, 15)
    assert (item.downlink_payload_bytes, item.downlink_bits_per_coordinate) == (800, 32.0)
    assert (item.update_norm, item.server_seconds, item.evaluate_seconds, item.model_version) == (2.5, 0.25, 0.5, 5)
    assert 2.9 < item.seconds < 60  # so long ago the round began; a busy machine adds to it
    assert item.bits_per_coordinate == 4.0  # of the accepted payload
    assert item.train_loss == 0.5
    first, second, last = item.client_results
    assert (first.outcome, second.outcome, last.outcome, last.round_asked) == ("applied", "rejected", "late", 0)
    assert (first.bits_asked, first.bits_source) == (1.0, "run")
    assert (second.bits_asked, second.bits_source) == (4.5, "rule")
    assert (first.num_examples, first.node_id, first.reject_reason) == (30, str(2**63 + 1), None)
    assert (second.num_examples, second.reject_reason) == (0, "InvalidWeight: nan")
    assert second.vnmse is not None
    assert math.isnan(second.vnmse)


def test_a_round_without_any_reply_is_skipped() -> None:
    outcome = RoundOutcome(1, 0, 0.0, wanted=1, outcomes=[ClientOutcome(CLIENT, "rejected", "no reply")], note="why")
    with RunStore(database_url()) as store:
        reporter = started(store)
        reporter.record(outcome, replace(TEST, accuracy=math.nan, loss=math.nan, update_norm=None))
        (item,) = store.find_run(reporter.run_id).rounds
    assert (item.status, item.note) == ("skipped", "why")
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
