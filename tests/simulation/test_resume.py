"""Real processes: kill the server in the middle of a round, resume, and get the same model to the bit."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.support.commands import QUICK_TASK, processes_with, record, records, run, start

ROUNDS = 5
SETTINGS = (
    *("--clients", "3", "--task", QUICK_TASK, "--compressor", "topk:fraction=0.02"),
    *("-c", "clients-per-round=2", "-c", "strategy='fedadam'", "-c", "server-learning-rate=0.01"),
    *("-c", "downlink-compressor='eden:bits=4,scale=mmse'"),
)


def model(found: dict[str, object]) -> dict[str, torch.Tensor]:
    return dict(load_file(Path(str(found["checkpoint_path"])) / "model.safetensors"))


def wait_for_rounds(process: object, home: Path, cwd: Path, count: int) -> None:
    deadline = time.monotonic() + 180
    while not any(item["rounds_done"] >= count and item["status"] == "running" for item in records(home, cwd)):
        if process.poll() is not None or time.monotonic() > deadline:  # type: ignore[attr-defined]
            pytest.fail(f"round {count} was not recorded: {process.communicate()}")  # type: ignore[attr-defined]
        time.sleep(0.2)


def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code, _, err = run(
        "fedcomp", "simulate", "--name", "whole", "--rounds", str(ROUNDS), *SETTINGS, home=home, cwd=tmp_path
    )
    assert code == 0, err
    process = start(
        "fedcomp", "simulate", "--name", "killed", "--rounds", str(ROUNDS), *SETTINGS, home=home, cwd=tmp_path
    )
    try:
        wait_for_rounds(process, home, tmp_path, 2)
        victims = [
            pid
            for pid in processes_with("FEDCOMP_HOME", str(home))
            if any(word.endswith("/flwr-simulation") for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0"))
        ]
        assert victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=150)
    finally:
        process.kill()
    killed = record(home, tmp_path, "killed")
    assert 2 <= killed["rounds_done"] < ROUNDS

    code, _, err = run("fedcomp", "simulate", "--resume", "killed", home=home, cwd=tmp_path)
    assert code == 0, err
    resumed, whole = record(home, tmp_path, "killed"), record(home, tmp_path, "whole")
    assert resumed["id"] == killed["id"]
    assert (resumed["status"], resumed["rounds_done"]) == ("completed", ROUNDS)
    one, other = model(whole), model(resumed)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert [item["accuracy"] for item in resumed["rounds"]] == [item["accuracy"] for item in whole["rounds"]]


def test_a_run_is_stopped_after_its_round(tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = start(
        "fedcomp", "simulate", "--clients", "2", "--rounds", "500", "--task", QUICK_TASK, home=home, cwd=tmp_path
    )
    try:
        wait_for_rounds(process, home, tmp_path, 1)
        code, _, err = run("fedcomp", "stop", "latest", home=home, cwd=tmp_path)
        assert code == 0, err
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0, err
    found = record(home, tmp_path)
    assert found["status"] == "completed"
    assert found["stop_reason"] == f"stopped by request after round {found['rounds_done']}"
    assert found["rounds_done"] < 500
    code, _, err = run("fedcomp", "stop", "latest", home=home, cwd=tmp_path)
    assert code == 1
    assert "completed" in err
