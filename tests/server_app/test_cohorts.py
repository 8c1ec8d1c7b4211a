"""Whom a round draws, from what is known of each client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from server_app.coordinator import Coordinator
from server_app.roster import Client
from server_app.rounds import draw_cohort
from server_app.run_state import RunState
from tests.server_app.test_plan import plan
from tests.server_app.test_run_state import fresh

CLIENTS = [Client(f"client-{i}", i, 40 - i, "cpu", "0.1.0") for i in range(4)]


def drawn(state: RunState, sampler: str, count: int, number: int) -> list[tuple[Client, float]]:
    run = SimpleNamespace(state=state, plan=plan(sampler=sampler))
    return draw_cohort(cast(Coordinator, run), list(reversed(CLIENTS)), count, number=number)


def test_each_round_draws_anew_and_the_same_round_the_same() -> None:
    cohorts = [[client.name for client, _ in drawn(fresh(), "uniform", 2, number)] for number in range(1, 13)]
    assert all(cohort == sorted(cohort) and len(set(cohort)) == 2 for cohort in cohorts)
    assert len({tuple(cohort) for cohort in cohorts}) > 2
    assert cohorts[4] == [client.name for client, _ in drawn(fresh(), "uniform", 2, 5)]


def test_larger_clients_are_likelier_and_that_is_told() -> None:
    state = fresh()
    for index, client in enumerate(CLIENTS, start=1):
        state.ledger[client.name].examples = 10.0 * index
    chances = {client.name: chance for number in range(40) for client, chance in drawn(state, "examples", 2, number)}
    expected = {"client-0": 0.4, "client-1": 0.8, "client-2": 1.2, "client-3": 1.6}
    assert chances == {name: pytest.approx(chance) for name, chance in expected.items()}


def test_clients_that_reply_are_likelier() -> None:
    state = fresh()
    for client in CLIENTS:
        state.ledger[client.name].asked = 98
    state.ledger["client-2"].replied = 97
    names = [client.name for number in range(20) for client, _ in drawn(state, "availability", 1, number)]
    assert names.count("client-2") > 15
