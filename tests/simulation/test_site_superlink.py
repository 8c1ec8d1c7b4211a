"""A real SuperLink, started as the coordinator's unit says: `site check` and `site sync` rely on its answers."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedcomp.commands import main
from fedcomp.site.check_connection import check_connection
from fedcomp.site.federation import FederationFolder
from fedcomp.site.findings import Finding, Verdict
from fedcomp.site.profile import CoordinatorEntry, read_profile
from fedcomp.site.setup import Plan, create_federation
from tests.support.commands import free_ports

PROGRAMS = Path(sys.executable).parent


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[FederationFolder]:
    """A federation of two sites whose SuperLink runs; here sites reach it without a proxy."""
    folder = FederationFolder(tmp_path / "federation")
    (port,) = free_ports(1)
    plan = Plan(hosts=("127.0.0.1",), names=("bank", "clinic"), port=port, local_port=port)
    create_federation(folder.path, plan, now=datetime.now(UTC), programs=PROGRAMS)
    lines = (folder.deploy / "fedcomp-coordinator.service").read_text().splitlines()
    settings = [line.partition("=")[::2] for line in lines if "=" in line]
    variables = dict(shlex.split(value)[0].split("=", 1) for key, value in settings if key == "Environment")
    (command,) = (shlex.split(value) for key, value in settings if key == "ExecStart")
    with (tmp_path / "superlink.log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder.state, env={**os.environ, **variables}, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        deadline = time.monotonic() + 120
        while reach(folder, "bank")["port"].verdict is not Verdict.OK:
            assert process.poll() is None, (tmp_path / "superlink.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.5)
        yield folder
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()


def reach(folder: FederationFolder, name: str, *, ahead: timedelta = timedelta()) -> dict[str, Finding]:
    path = folder.path.parent / name / "site.toml"
    if not path.exists():
        with tarfile.open(folder.archive(name)) as archive:
            archive.extractall(folder.path.parent, filter="data")
    entry = read_profile(path).coordinator
    assert isinstance(entry, CoordinatorEntry)
    found = check_connection(entry, path, clock=lambda: datetime.now(UTC) + ahead)
    return {finding.what: finding for finding in found}


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(main.app, ["site", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.slow
def test_a_superlink_knows_who_was_registered_and_forgets_who_was_revoked(coordinator: FederationFolder) -> None:
    before = reach(coordinator, "bank")
    assert before["certificate"].verdict is Verdict.OK
    assert before["clock"].verdict is Verdict.OK
    assert "does not know this site's key" in before["registration"].says
    # There is no proxy in front, so that everything answers.
    assert before["exposure"].verdict is Verdict.NOTE
    assert run("sync", coordinator.path).count("is registered as node") == 2
    assert "nothing to do" in run("sync", coordinator.path)
    assert reach(coordinator, "bank")["registration"].verdict is Verdict.OK
    # Asking changed nothing: the site is registered, not online.
    late = reach(coordinator, "bank", ahead=timedelta(minutes=20))
    assert late["clock"].verdict is Verdict.WRONG
    assert "refused this site's signature: the clock is wrong" in late["registration"].says
    assert "is unregistered" in run("revoke", "bank", coordinator.path)
    assert "does not know this site's key" in reach(coordinator, "bank")["registration"].says
    assert reach(coordinator, "clinic")["registration"].verdict is Verdict.OK
