"""`fedcomp simulate` as a user runs it: real Flower, real Ray, real processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import QUICK_TASK, flower_processes, processes_with, record, records, run, start

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    before = flower_processes()
    yield
    assert flower_processes() - before == set()


def test_two_simulations_at_once_do_not_disturb_one_another(tmp_path: Path) -> None:
    home = tmp_path / "home"
    config = tmp_path / "settings.toml"
    config.write_text(f'task = "{QUICK_TASK}"\nnum-server-rounds = 2\ncompressor = "identity"\n')
    arguments = ("fedcomp", "simulate", "--config", str(config), "--clients", "2")
    first = start(*arguments, "--name", "one", "--compressor", "eden:bits=1", home=home, cwd=tmp_path)
    second = start(*arguments, "--name", "two", "--seed", "7", home=home, cwd=tmp_path)
    (out1, err1), (out2, err2) = first.communicate(timeout=350), second.communicate(timeout=350)
    assert first.returncode == 0, err1 + out1
    assert second.returncode == 0, err2 + out2

    one, two = record(home, tmp_path, "one"), record(home, tmp_path, "two")
    assert (one["compressor"], two["compressor"]) == ("eden:bits=1", "identity")
    assert (one["seed"], two["seed"]) == ("1", "7")
    assert one["mean_bits_per_coordinate"] <= 1.01
    assert two["mean_bits_per_coordinate"] == pytest.approx(32, rel=1e-4)
    assert len(records(home, tmp_path)) == 2
    for found, out in ((one, out1), (two, out2)):
        assert found["status"] == "completed"
        assert len(found["rounds"]) == 2
        assert all(item["clients"] == 2 and item["rejected"] == 0 for item in found["rounds"])
        assert all(client["envelope_bytes"] > 0 for item in found["rounds"] for client in item["client_results"])
        assert Path(found["checkpoint_path"]).is_dir()
        assert "synthetic" in found["data_label"]
        # What the user sees: where the records are, a line a round, the table, the verdict.
        assert f"records in {home}" in out
        assert out.count("round 2: accuracy") == 1
        assert "bits/coordinate" in out
        assert f"fedcomp show {found['id']}" in out.splitlines()[-1]
    assert "32.0x smaller" in out1 or "31." in out1.splitlines()[-1]
    assert "1.0x smaller" in out2


def test_a_failed_run_says_why_and_exits_non_zero(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code, out, err = run(
        "fedcomp", "simulate", "--clients", "1", "--task", QUICK_TASK, "-c", "node-timeout=0.5", home=home, cwd=tmp_path
    )
    assert code == 1, out
    # Whether the one client has answered by then depends on the machine.
    assert re.search(r"TooFewClients: [01] clients answered within 0\.5 s, min-clients is 2; start more clients", err)
    assert "finished:failed" in err
    assert "Traceback" not in err
    found = record(home, tmp_path)
    assert found["status"] == "failed"
    assert Path(err.split("its log is ")[1].split(")")[0]).read_text()


def start_endless(home: Path, cwd: Path) -> subprocess.Popen[str]:
    """Start a simulation of 500 rounds and return once its first round is recorded."""
    process = start(
        "fedcomp", "simulate", "--clients", "2", "--rounds", "500", "--task", QUICK_TASK, home=home, cwd=cwd
    )
    deadline = time.monotonic() + 240
    while not any(item["rounds_done"] for item in records(home, cwd)):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            pytest.fail(f"no round was recorded: {process.communicate()}")
        time.sleep(0.5)
    return process


@pytest.mark.parametrize("program", ["flower-superlink", "flwr-simulation"])
def test_a_killed_flower_process_fails_the_run(tmp_path: Path, program: str) -> None:
    home = tmp_path / "home"
    process = start_endless(home, tmp_path)
    try:
        victims = [
            pid
            for pid in processes_with("FEDCOMP_HOME", str(home))
            if any(word.endswith(f"/{program}") for word in Path(f"/proc/{pid}/cmdline").read_text().split("\0"))
        ]
        assert victims
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        _, err = process.communicate(timeout=150)
    finally:
        process.kill()
    assert process.returncode == 1, err
    assert "SimulationFailed" in err
    found = record(home, tmp_path)
    assert (found["status"], bool(found["error"])) == ("failed", True)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_ctrl_c_stops_everything(tmp_path: Path, name: str) -> None:
    home = tmp_path / "home"
    process = start_endless(home, tmp_path)
    try:
        process.send_signal(signal.Signals[name])
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "interrupted" in err
    assert record(home, tmp_path)["status"] == "cancelled"


@pytest.mark.slow
def test_a_command_that_is_killed_leaves_nothing_running_but_its_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    process = start_endless(home, tmp_path)
    (log,) = (home / "logs").iterdir()
    assert log.name == f"{record(home, tmp_path)['flower_run_id']}.log"
    process.kill()
    process.communicate()
    assert "emnist" in log.read_text()
    deadline = time.monotonic() + 60
    while processes_with("FEDCOMP_HOME", str(home)):
        assert time.monotonic() < deadline
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--compressor", "eden:bits=99"), "bits is 99; allowed: any number above 0, at most 8"),
        (("--task", "nothing"), "unknown task 'nothing'"),
        (("-c", "client-bits='a=x'"), "client-bits: 'a=x' is not a rule"),
        (("-c", "server-schedule='triangle'"), "server-schedule"),
        (("-c", "local-schedule='linear:end=x'"), "local-schedule"),
        (("-c", "downlink-compressor='randk'"), "downlink-compressor: 'randk"),
        (("--compressor", "qsgd", "-c", "error-feedback='on'"), "allowed with error feedback: below 1"),
        (("-c", "no-such-key=1"), "unknown key 'no-such-key'; allowed: "),
        (("-c", "batch-size=x"), "write key=value in TOML, strings in quotes"),
        (("--config", "missing.toml"), "missing.toml"),
    ],
)
def test_wrong_settings_are_told_at_once(tmp_path: Path, arguments: tuple[str, ...], named: str) -> None:
    code, _, err = run("fedcomp", "simulate", *arguments, home=tmp_path / "home", cwd=tmp_path)
    assert code == 1
    assert named in err
    assert "Traceback" not in err
    assert records(tmp_path / "home", tmp_path) == []
