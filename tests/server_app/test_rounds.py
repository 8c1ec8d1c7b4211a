"""Rounds that end: deadlines, over-selection, late replies, feedback, downlinks, budgets."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest
import torch
from flwr.app import Message

from client_app.app import app as client_app
from client_app.state import ClientStore
from dashboard.store import RunStore
from fedcomp.home import database_url
from fedcomp.vectors import VectorSpec
from server_app.roster import TooFewClients
from tests.support.in_process_grid import InProcessGrid
from tests.support.lossy_grid import lossy
from tests.support.runs import final_model, requests_of, run_in_process, same, settings

DIM = 8 * 40 + 40 + 40 * 2 + 2


def test_the_first_k_of_k_plus_m_make_the_mean() -> None:
    config = settings(clients_per_round=2, over_selection=2, num_server_rounds=1)
    # Nodes 1000 and 1002 are slow: the first two replies are those of 1001 and 1003.
    grid = lossy(config, 4, delay=lambda node, _: 50 if node % 2 == 0 else 0)
    run, _ = run_in_process(config, grid=grid)
    (item,) = run.rounds
    assert (item.asked, item.clients, item.rejected, item.status) == (4, 2, 0, "ok")
    found = {client.client: client.outcome for client in item.client_results}
    assert found == {
        "client-0": "over-selected",
        "client-1": "applied",
        "client-2": "over-selected",
        "client-3": "applied",
    }


def test_a_late_reply_is_noted_and_not_mixed_in() -> None:
    config = settings(clients_per_round=2, over_selection=1, num_server_rounds=2, compressor="topk:fraction=0.1")
    grid = lossy(config, 3, delay=lambda node, _: 2 if node == 1000 else 0)
    run, _ = run_in_process(config, grid=grid)
    second = run.rounds[1]
    (late,) = [client for client in second.client_results if client.outcome == "late"]
    assert (late.client, late.round_asked, late.weight) == ("client-0", 1, None)
    assert late.reject_reason == "the reply came after its round had ended"
    assert second.uplink_payload_bytes == sum(client.payload_bytes for client in second.client_results)
    # Busy with its first request, it was not asked again.
    assert [item.round_index for item in requests_of(grid) if item.client == "client-0"] == [1]


def test_a_silent_client_is_asked_again_after_one_more_round() -> None:
    config = settings(num_server_rounds=4, round_timeout=0.2, min_clients=2)
    grid = lossy(config, 3, delay=lambda node, time: None if (node, time) == (1000, 1) else 0)
    run, _ = run_in_process(config, grid=grid)
    asked = [item.round_index for item in requests_of(grid) if item.client == "client-0"]
    assert asked[0] == 1
    assert 2 not in asked
    assert run.rounds[0].status == "partial"
    assert run.status == "completed"


def test_a_client_that_is_busy_too_long_is_waited_for_with_a_bound() -> None:
    config = settings(num_server_rounds=3, round_timeout=30.0, min_clients=3, node_timeout=0.3)
    grid = lossy(config, 4, delay=lambda node, _: None if node in (1000, 1001) else 0)
    config["clients-per-round"], config["over-selection"] = 2, 2
    with pytest.raises(TooFewClients, match=r"4 clients answered within 0\.3 s \(2 of them still at work\)"):
        run_in_process(config, grid=grid)


def test_too_few_replies_keep_the_model() -> None:
    config = settings(min_replies=3, num_server_rounds=2)
    grid = lossy(config, 3, delay=lambda node, _: None if node == 1002 else 0)
    config["round-timeout"] = 0.2
    run, _ = run_in_process(config, grid=grid)
    first = run.rounds[0]
    assert (first.status, first.clients, first.note) == (
        "skipped",
        0,
        "2 usable replies, min-replies is 3: the model is kept",
    )
    assert {client.reject_reason for client in first.client_results} == {
        "the round had no mean",
        "no reply before the deadline",
    }


def test_messages_outlive_their_round_by_one() -> None:
    _, grid = run_in_process(settings(num_server_rounds=1, round_timeout=7.0))
    assert {item.metadata.ttl for item in grid.pushed if "parts" in item.content} == {14.0}


def residual_of(run_id: str, client: str) -> torch.Tensor:
    residual = ClientStore.open(run=run_id, client=client).before(99).residual
    assert residual is not None
    return residual


def test_biased_schemes_use_feedback_and_learn_where_they_would_not() -> None:
    config = settings(compressor="topk:fraction=0.02", num_server_rounds=12, learning_rate=0.05)
    with_feedback, grid = run_in_process(config)
    without, _ = run_in_process(config | {"error-feedback": "off"})
    assert all(item.feedback for item in requests_of(grid))
    assert with_feedback.rounds[-1].loss is not None
    assert without.rounds[-1].loss is not None
    assert with_feedback.rounds[-1].loss < 0.8 * without.rounds[-1].loss
    assert float(residual_of(with_feedback.id, "client-0").norm()) > 0


def test_what_was_not_applied_is_sent_again() -> None:
    # client-0's first payload is over-selected; what it held must be in what it encodes the second time.
    config = settings(clients_per_round=2, over_selection=1, num_server_rounds=3, compressor="topk:fraction=0.1")
    grid = lossy(config, 3, delay=lambda node, time: 2 if (node, time) == (1000, 1) else 0)
    run, _ = run_in_process(config, grid=grid)
    told = {(item.client, item.round_index): item.last_applied_round for item in requests_of(grid)}
    assert told["client-0", 1] == told["client-1", 1] == 0
    assert told["client-1", 2] == 1
    later = [value for (client, index), value in told.items() if client == "client-0" and index > 1]
    assert later == [0] * len(later)
    assert later, "client-0 must have been asked again"
    assert run.status == "completed"


def test_nothing_is_kept_by_clients_unless_something_needs_it() -> None:
    run, _ = run_in_process(settings())
    assert not ClientStore.open(run=run.id, client="client-0").folder.exists()


def test_every_client_trains_the_servers_copy_of_the_model() -> None:
    # Three clients of five a round: some hold the last version, some an older one, some none.
    config = settings(
        downlink_compressor="eden:bits=3,scale=mmse", clients_per_round=3, num_server_rounds=6, compressor="identity"
    )
    grid = InProcessGrid.of(client_app, 5, config)
    run, _ = run_in_process(config, grid=grid)
    by_version: dict[int, list[torch.Tensor]] = {}
    for item in requests_of(grid):
        store = ClientStore.open(run=run.id, client=item.client)
        state = store.before(99)
        if state.version == item.version and state.model is not None:
            by_version.setdefault(item.version, []).append(state.model)
    assert by_version
    for models in by_version.values():
        assert all(torch.equal(model, models[0]) for model in models)
    routes = {tuple(part.base for part in item.parts) for item in requests_of(grid)}
    assert (None,) in routes
    assert any(route and None not in route for route in routes), "somebody must have got differences only"
    rates = [item.downlink_bits_per_coordinate for item in run.rounds]
    assert all(rate is not None for rate in rates)
    assert rates[0] is not None
    assert rates[0] > 16
    assert run.total_downlink_payload_bytes == sum(
        client.downlink_payload_bytes for item in run.rounds for client in item.client_results
    )
    plain, _ = run_in_process(config | {"downlink-compressor": "identity"})
    assert run.total_downlink_payload_bytes < 0.7 * plain.total_downlink_payload_bytes
    assert run.last_accuracy is not None
    assert run.last_accuracy > 0.9


def test_a_client_that_lost_its_state_gets_a_whole_model_the_next_time() -> None:
    config = settings(downlink_compressor="eden:bits=3,scale=mmse", num_server_rounds=4)
    grid = InProcessGrid.of(client_app, 2, config)
    lost: list[int] = []

    class Losing(InProcessGrid):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            sent = list(messages)
            if len(requests_of(self)) == 4 and not lost:
                with RunStore(database_url()) as store:
                    run_id = store.find_run("latest").id
                for path in ClientStore.open(run=run_id, client="client-1").folder.glob("round-*/*"):
                    path.unlink()
                lost.append(1)
            return super().push_messages(sent)

    grid = Losing.of(client_app, 2, config)
    run, _ = run_in_process(config, grid=grid)
    reasons = [
        client.reject_reason for item in run.rounds for client in item.client_results if client.client == "client-1"
    ]
    assert [reason is None for reason in reasons] == [True, True, False, True]
    assert "MissingVersion" in str(reasons[2])


def test_the_servers_model_is_never_changed_by_its_compression() -> None:
    # With one exact client the server's model is the client's end point, whatever the downlink loses.
    config = settings(downlink_compressor="eden:bits=2,scale=mmse", compressor="identity", num_server_rounds=3)
    run, _ = run_in_process(config)
    model = VectorSpec.from_state_dict(final_model(run)).flatten(final_model(run))
    state = ClientStore.open(run=run.id, client="client-0").before(99)
    assert state.model is not None
    assert not torch.equal(model, state.model)
    again, _ = run_in_process(config)
    assert same(final_model(run), final_model(again))


def test_budgets_by_rule_are_kept_and_recorded() -> None:
    task = "tests.support.tiny_task:TinyTask:width=20000"
    config = settings(task=task, client_bits="client-0=0.5, device:cuda*=8, client-[12]=2.5", compressor="eden:bits=1")
    run, _ = run_in_process(config, clients=4)
    for item in run.rounds:
        by_name = {client.client: client for client in item.client_results}
        for name, bits, source in (
            ("client-0", 0.5, "rule"),
            ("client-1", 2.5, "rule"),
            ("client-2", 2.5, "rule"),
            ("client-3", 1.0, "run"),
        ):
            client = by_name[name]
            assert (client.bits_asked, client.bits_source) == (bits, source)
            assert 0.97 * bits < client.bits_per_coordinate <= 1.01 * bits


def test_a_site_s_own_limit_comes_first() -> None:
    config = settings(client_bits="*=4", num_server_rounds=1, target_upload_seconds=0.01)
    grid = InProcessGrid.of(client_app, 3, config)
    grid.nodes = {
        1: {"partition-id": 0, "num-partitions": 3, "bits": 1.5},
        2: {"partition-id": 1, "num-partitions": 3, "uplink-mbps": 0.1},
        3: {"partition-id": 2, "num-partitions": 3},
    }
    run, _ = run_in_process(config, grid=grid)
    asked = {client.client: (client.bits_asked, client.bits_source) for client in run.rounds[0].client_results}
    assert asked == {
        "client-0": (1.5, "profile"),
        "client-1": (pytest.approx(0.1e6 * 0.01 / DIM), "uplink"),
        "client-2": (4.0, "rule"),
    }


def test_a_budget_that_the_scheme_cannot_keep_leaves_the_client_out() -> None:
    run, _ = run_in_process(settings(client_bits="client-1=0.5", compressor="qsgd:bits=4", num_server_rounds=1))
    (item,) = run.rounds
    (left_out,) = [client for client in item.client_results if client.outcome == "rejected"]
    assert left_out.client == "client-1"
    assert str(left_out.reject_reason).startswith("BudgetImpossible: 'qsgd:bits=4' cannot keep to 0.5 bits")
    assert item.clients == 2


def test_bandwidth_is_estimated_from_earlier_rounds_and_null_in_a_simulation(monkeypatch: pytest.MonkeyPatch) -> None:
    config = settings(target_upload_seconds=5.0, num_server_rounds=3)
    run, _ = run_in_process(config)
    first, second, _ = (item.client_results[0] for item in run.rounds)
    assert (first.uplink_mbps_estimate, first.bits_source) == (None, "run")
    assert second.uplink_mbps_estimate is not None
    assert second.bits_source == "estimate"
    monkeypatch.setattr("client_app.app.is_simulated", lambda: True)
    simulated, _ = run_in_process(config)
    assert all(client.uplink_mbps_estimate is None for item in simulated.rounds for client in item.client_results)
    assert all(client.bits_source == "run" for item in simulated.rounds for client in item.client_results)


@pytest.mark.parametrize(("weights", "expected"), [("examples", [40.0] * 3), ("uniform", [1.0] * 3)])
def test_weights_are_recorded(weights: str, expected: list[float]) -> None:
    run, _ = run_in_process(settings(weights=weights, num_server_rounds=1))
    assert [client.weight for client in run.rounds[0].client_results] == expected


def test_variance_aware_weights_favour_exact_clients() -> None:
    run, _ = run_in_process(settings(weights="variance", client_bits="client-0=1", num_server_rounds=1))
    coarse, fine, _ = run.rounds[0].client_results
    assert coarse.vnmse is not None
    assert coarse.weight == pytest.approx(40 / (1 + coarse.vnmse))
    assert fine.weight is not None
    assert coarse.weight is not None
    assert fine.weight > 1.2 * coarse.weight


@pytest.mark.parametrize("sampler", ["uniform", "examples", "availability"])
def test_every_sampler_runs(sampler: str) -> None:
    run, _ = run_in_process(settings(sampler=sampler, clients_per_round=2, num_server_rounds=6), clients=4)
    assert [item.clients for item in run.rounds] == [2] * 6


def test_a_huge_update_is_clipped_and_named() -> None:
    config = settings(outlier_report=True, clip_factor=1.0, num_server_rounds=3)
    config["task"] = "tests.support.tiny_task:FlippedTask"
    run, _ = run_in_process(config, clients=8)
    last = run.rounds[-1]
    flagged = {client.client for client in last.client_results if client.outlier}
    assert flagged == {"client-3"}
    by_name = {client.client: client for client in last.client_results}
    assert by_name["client-3"].cosine is not None
    assert by_name["client-3"].cosine < 0
    assert all(client.update_norm is not None for client in last.client_results)
    assert any(client.clip_factor is not None and client.clip_factor < 1 for client in last.client_results)


def test_the_disk_need_that_is_said_is_what_is_needed(capsys: pytest.CaptureFixture[str]) -> None:
    config = settings(
        task="tests.support.tiny_task:TinyTask:width=20000",
        compressor="topk:fraction=0.9",
        downlink_compressor="eden:bits=4",
        num_server_rounds=4,
        log_level="info",
    )
    run, _ = run_in_process(config, clients=2)
    said = re.search(r"each client needs up to ([\d.]+) MB of disk: ([\d.]+) MB a state", capsys.readouterr().out)
    assert said is not None
    folder = ClientStore.open(run=run.id, client="client-0").folder
    sizes = [sum(item.stat().st_size for item in path.iterdir()) / 1e6 for path in folder.iterdir()]
    assert 0.8 * float(said[2]) < max(sizes) < float(said[2])
    assert sum(sizes) <= float(said[1])
