"""Rolling back while requests are under way: what was made in a round that is given up is not used, nor counted on."""

from __future__ import annotations

import pytest
import torch

from client_app.app import app as client_app
from server_app.optimizers import Optimizer
from tests.server_app.test_coordinator import ExplodingGrid, exploding
from tests.server_app.test_plan import plan
from tests.support.lossy_grid import LossyGrid
from tests.support.runs import identify, requests_of, run_in_process, settings


class LateAndExploding(ExplodingGrid, LossyGrid):
    """Enormous updates in some rounds, late ones in others."""


def test_updates_asked_for_before_a_rollback_are_rejected_by_name() -> None:
    # Request 5 explodes in step 6, when request 6 is under way with a model newer than the checkpoint of step 3.
    config = settings(
        mode="async",
        async_buffer_size=2,
        async_concurrency=4,
        num_server_rounds=9,
        checkpoint_every=3,
        compressor="identity",
    )
    run, grid = run_in_process(config, grid=exploding(config, {5}))
    assert run.status == "completed"
    assert [item.status for item in run.rounds].count("rolled-back") == 1
    assert run.rounds[5].status == "rolled-back"
    void = requests_of(grid)[-1].void_rounds
    assert void == (4, 6)
    rejected = [
        (client.client, client.staleness)
        for item in run.rounds[6:]
        for client in item.client_results
        if client.reject_reason == "the round that asked was rolled back"
    ]
    assert rejected == [("client-0", 0), ("client-1", 0)]
    assert not [client for item in run.rounds for client in item.client_results if client.round_asked]
    # They are told so, and what they kept of it is void.
    later = [item for item in requests_of(grid) if item.round_index > 6]
    assert {item.client for item in later} == {f"client-{i}" for i in range(4)}
    assert not [item for item in later if 4 <= item.last_applied_round <= 6]


def test_a_late_reply_of_a_void_round_says_nothing_of_the_model_its_client_holds() -> None:
    config = settings(
        downlink_compressor="eden:bits=3,scale=mmse",
        compressor="identity",
        clients_per_round=3,
        over_selection=1,
        num_server_rounds=6,
    )
    grid = LateAndExploding.of(client_app, 4, config)
    assert isinstance(grid, LateAndExploding)
    grid.__dict__["rounds"] = {3}
    grid.delay = lambda node, time: 2 if (node, time) == (1000, 3) else 0
    run, _ = run_in_process(config, grid=grid)
    assert [item.status for item in run.rounds] == ["ok", "ok", "rolled-back", "ok", "ok", "ok"]
    (late,) = [client for client in run.rounds[3].client_results if client.round_asked == 3]
    assert (late.client, late.outcome, late.reject_reason) == (
        "client-0",
        "late",
        "the round that asked was rolled back",
    )
    reasons = [str(client.reject_reason) for item in run.rounds for client in item.client_results]
    assert not [reason for reason in reasons if "MissingVersion" in reason]
    # Each version is encoded with a seed of its own.
    seeds = {part.version: part.seed for item in requests_of(grid) for part in item.parts}
    assert len(set(seeds.values())) == len(seeds) > 3


START = torch.tensor([1.0, -2.0, 0.0])
UPDATES = [torch.tensor([0.5, 0.25, -1.0]), torch.tensor([-0.125, 0.5, 0.25]), torch.tensor([1.0, 1.0, 1.0])]


def played(optimizer: Optimizer, model: torch.Tensor, first: int, last: int) -> torch.Tensor:
    for index in range(first, last + 1):
        model = optimizer.step(model, UPDATES[index - 1], weight=7.0, round_index=index)
    return model


@pytest.mark.parametrize("strategy", ["fedavg", "fedavgm", "fedadam", "fedyogi"])
def test_the_servers_optimizer_goes_on_as_if_the_void_step_had_not_been(strategy: str) -> None:
    identify()
    rate = 1.0 if strategy == "fedavg" else 0.1
    settings_of = plan(strategy=strategy, server_learning_rate=rate)
    expected = played(settings_of.new_optimizer(), START, 1, 3)
    optimizer = settings_of.new_optimizer()
    model = played(optimizer, START, 1, 1)
    before = optimizer.state()
    copies = {name: value.clone() for name, value in before.items()}
    optimizer.step(model, 1e3 * UPDATES[1], weight=7.0, round_index=2)
    assert all(torch.equal(before[name], copies[name]) for name in copies)
    optimizer.restore(before)
    assert torch.equal(played(optimizer, model, 2, 3), expected)
