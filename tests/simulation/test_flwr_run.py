"""Plain `flwr run .` from the project folder, with a user's own Flower set-up, and nothing downloaded."""

from __future__ import annotations

import os
import re
import signal
import zipfile
from pathlib import Path

import pytest

from fedcomp.app_bundle import PACKAGES
from tests.support.commands import QUICK_TASK, copy_checkout, free_ports, processes_with, record, run

TEXT = "task='shakespeare:examples-per-client=4,test-examples=4' num-server-rounds=1 batch-size=4"

pytestmark = pytest.mark.timeout(400)


def test_flwr_run_does_what_its_run_config_says(tmp_path: Path) -> None:
    project = copy_checkout(tmp_path / "project")
    before = (project / "pyproject.toml").read_bytes()
    home = tmp_path / "home"
    http_port, control_port = free_ports(2)
    env = {
        "FLWR_HOME": str(tmp_path / "flwr"),
        "FLWR_LOCAL_SUPERLINK_HTTP_API_PORT": str(http_port),
        "FLWR_LOCAL_CONTROL_API_PORT": str(control_port),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        # Flower installs the app's dependencies before it runs it. Offline and with an empty cache that fails unless
        # there is nothing to install.
        "UV_OFFLINE": "1",
        "UV_CACHE_DIR": str(tmp_path / "uv-cache"),
    }
    settings = f"compressor='eden:bits=1' num-server-rounds=2 name='first' task='{QUICK_TASK}'"
    try:
        code, out, err = run("flwr", "run", ".", "--stream", "--run-config", settings, home=home, cwd=project, env=env)
        longer = f"{settings} resume='first'".replace("num-server-rounds=2", "num-server-rounds=3")
        again = run("flwr", "run", ".", "--stream", "--run-config", longer, home=home, cwd=project, env=env)
        other = run("flwr", "run", ".", "--stream", "--run-config", TEXT, home=home, cwd=project, env=env)
    finally:
        for pid in processes_with("FLWR_HOME", str(tmp_path / "flwr")):
            os.kill(pid, signal.SIGKILL)
    output = out + err
    assert code == 0, output
    assert "finished" in output or "round 2: accuracy" in output
    assert not re.search(r"Installed: \[", output), output

    found = record(home, tmp_path, "first")
    assert found["status"] == "completed", output
    assert again[0] == 0, again
    assert "resumed after round 2" in again[1] + again[2]
    assert (found["compressor"], found["rounds_done"]) == ("eden:bits=1", 3)
    assert found["rounds"][0]["clients"] == 2  # Flower's default
    assert found["mean_bits_per_coordinate"] <= 1.01
    text = record(home, tmp_path)
    assert (text["status"], text["dim"], text["rounds_done"]) == ("completed", 820_522, 1), other
    assert str(home) in output  # where the records are is said
    assert (project / "pyproject.toml").read_bytes() == before


def test_the_bundle_holds_the_app_and_little_else(tmp_path: Path) -> None:
    project = copy_checkout(tmp_path / "fedcomp")
    code, out, err = run("flwr", "build", home=tmp_path / "home", cwd=project)
    assert code == 0, out + err
    (bundle,) = project.glob("*.fab")
    names = zipfile.ZipFile(bundle).namelist()
    assert "server_app/app.py" in names
    assert "client_app/app.py" in names
    assert any(name.startswith("dashboard/migrations/versions/") for name in names)
    assert {name.split("/")[0] for name in names} <= {*PACKAGES, ".info", "pyproject.toml", "README.md", "LICENSE"}
    # What no site runs does not travel to the sites.
    idle = ("fedcomp/commands/", "fedcomp/bench/", "fedcomp/sweeps/", "dashboard/routes/", "dashboard/static/")
    assert not [name for name in names if name.startswith(idle)]
    assert not [name for name in names if name.startswith(PACKAGES) and not name.endswith(".py")]
