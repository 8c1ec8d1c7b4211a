from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from fedcomp.superlink import PrivateSuperLink, SuperLinkError, tail


def fake_program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Only programs of this folder are found."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setattr("fedcomp.superlink._script_folders", lambda: [str(folder)])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return folder


def test_a_superlink_that_does_not_start_shows_its_log(tmp_path: Path, programs: Path) -> None:
    fake_program(programs, "flower-superlink", "echo the port is taken; exit 1")
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(SuperLinkError, match=r"did not start; its log is .*superlink\.log:\n(the port is taken\n?)+"):
        PrivateSuperLink(work).__enter__()


def test_a_missing_flower_is_told(tmp_path: Path, programs: Path) -> None:
    with pytest.raises(SuperLinkError, match=r"flower-superlink was not found in .*; install flwr\[simulation\]"):
        PrivateSuperLink(tmp_path).__enter__()


def test_an_answer_without_a_status_is_told(tmp_path: Path, programs: Path) -> None:
    fake_program(programs, "flwr", "echo no such run")
    with pytest.raises(SuperLinkError, match="gave no status of run 5: no such run"):
        PrivateSuperLink(tmp_path).status("5")


def test_settings_reach_flower_as_toml(tmp_path: Path, programs: Path) -> None:
    fake_program(programs, "flwr", 'echo "$@"')
    config: dict[str, str | int | float | bool] = {"name": 'a "b" \\ c', "rate": 0.5, "rounds": 3, "flag": True}
    superlink = PrivateSuperLink(tmp_path)
    log_path = tmp_path / "log"
    process = superlink.run(tmp_path, run_config=config, federation={"num-supernodes": 2}, log_path=log_path)
    assert process.wait(timeout=10) == 0
    superlink.__exit__(None, None, None)
    assert tomllib.loads((tmp_path / "run.toml").read_text()) == config
    assert "--federation-config num-supernodes=2" in log_path.read_text()


def test_flower_installs_reports_and_shares_nothing(tmp_path: Path, programs: Path) -> None:
    fake_program(programs, "flwr", "env")
    superlink = PrivateSuperLink(tmp_path)
    process = superlink.run(tmp_path, run_config={}, federation={}, log_path=tmp_path / "log")
    assert process.wait(timeout=10) == 0
    superlink.__exit__(None, None, None)
    environment = dict(line.split("=", 1) for line in (tmp_path / "log").read_text().splitlines() if "=" in line)
    assert environment["FLWR_HOME"] == str(tmp_path)
    assert environment["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert environment["FLWR_TELEMETRY_ENABLED"] == "0"
    assert environment["FLWR_DISABLE_UPDATE_CHECK"] == "1"


def test_the_end_of_a_log(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("one\ntwo\nthree\n")
    assert tail(tmp_path / "log", 2) == "two\nthree"
    assert tail(tmp_path / "none", 2) == f"(no log at {tmp_path / 'none'})"
