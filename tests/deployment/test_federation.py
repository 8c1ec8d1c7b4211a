"""Three sites with TLS, keys and sealed messages, as real processes; one of them and the SuperLink are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.federation import TASK, Federation, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    found = Federation(tmp_path, {"hospital": "", "bank": "bits = 4", "factory": "max-bits = 0.5"})
    try:
        yield found
    finally:
        found.end()


def test_three_sites_with_their_own_budgets_train_on_while_one_is_killed(federation: Federation) -> None:
    federation.up("coordinator", "hospital", "bank", "factory")
    # So that the cap is exact: 250,000 coordinates, and no adaptive allocation.
    settings = (
        f"task='{TASK}:width=20000' compressor='eden:bits=1' sealing='on' min-clients=3 min-replies=2 "
        "num-server-rounds=8 round-timeout=120.0 device='cpu' checkpoint-every=4"
    )
    run = federation.flwr_run(settings)
    try:
        wait_for(lambda: "round 1:" in federation.run_output or run.poll() is not None, "the first round", 300)
        assert run.poll() is None, federation.run_output
        federation.kill("flower-supernode", "bank")
        assert run.wait(500) == 0, federation.run_output
    finally:
        run.kill()
    found = federation.record()
    assert (found["status"], found["rounds_done"]) == ("completed", 8), federation.run_output
    assert "the SuperNode ended with status -9" in federation.said("bank")

    seen: dict[str, list[tuple[str, float | None]]] = {}
    for each in found["rounds"]:
        for client in each["client_results"]:
            outcome, bits = client["outcome"], client["bits_per_coordinate"]
            seen.setdefault(client["client"], []).append((outcome, bits))
    assert sorted(seen) == ["bank", "factory", "hospital"]
    applied = {name: [bits for outcome, bits in items if outcome == "applied"] for name, items in seen.items()}
    assert len(applied["hospital"]) == len(applied["factory"]) == 8
    assert applied["hospital"] == pytest.approx([1.0] * 8, rel=0.01)
    assert applied["factory"] == pytest.approx([0.5] * 8, rel=0.01)
    # It missed a round and came back.
    assert 2 <= len(applied["bank"]) < 8
    assert applied["bank"] == pytest.approx([4.0] * len(applied["bank"]), rel=0.01)
    assert seen["bank"][-1][0] == "applied"

    assert set(federation.end().values()) == {0}
    assert wait_for(lambda: federation.leftovers() == [], "the end of all processes", 30)


def test_a_killed_superlink_is_back_and_knows_its_sites(federation: Federation) -> None:
    federation.up("coordinator", "hospital")
    federation.kill("flower-superlink", "coordinator")
    wait_for(lambda: federation.said("coordinator").count("the SuperLink is up") == 2, "its return")
    # The site's own process may have ended meanwhile; either way it is let in again.
    run = federation.flwr_run(
        f"task='{TASK}' sealing='on' min-clients=1 min-replies=1 num-server-rounds=1 device='cpu' node-timeout=200.0"
    )
    try:
        assert run.wait(400) == 0, federation.run_output
    finally:
        run.kill()
    found = federation.record()
    assert (found["status"], found["rounds_done"]) == ("completed", 1), federation.run_output
