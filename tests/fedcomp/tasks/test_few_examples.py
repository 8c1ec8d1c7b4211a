"""Whole rounds, server and clients, with clients that have 0, 1 and 2 examples."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedcomp.data.sources import prepare
from tests.support.femnist_forms import characters, write_leaf
from tests.support.runs import run_in_process, settings


@pytest.mark.parametrize("compressor", ["identity", "eden:bits=1,allocation=adaptive"])
def test_rounds_with_tiny_clients(tmp_path: Path, compressor: str) -> None:
    sizes = {"a": 0, "b": 1, "c": 2}
    write_leaf(tmp_path / "train" / "0.json", characters(sizes, seed=1))
    write_leaf(tmp_path / "test" / "0.json", characters({"c": 4}, seed=2))
    prepare("emnist", str(tmp_path), name="tiny")
    config = settings(task="emnist:data=tiny,model=1m", compressor=compressor, num_server_rounds=2, learning_rate=0.01)
    run, _ = run_in_process(config, clients=3)
    assert run.status == "completed"
    assert "FEMNIST" in run.data_label
    for item in run.rounds:
        assert (item.clients, item.rejected, item.status) == (3, 0, "ok")
        assert sorted(client.num_examples for client in item.client_results) == sorted(sizes.values())
