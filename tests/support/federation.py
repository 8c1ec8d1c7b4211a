"""A federation of real processes on loopback: a coordinator and its sites, each kept up by fedcomp's own commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedcomp.app_bundle import stage_app
from fedcomp.site.federation import FederationFolder
from fedcomp.site.programs import FLOWER_ENVIRONMENT
from fedcomp.site.setup import Plan, create_federation
from tests.support.commands import BIN, ROOT, environment, free_ports, record

TASK = "tests.support.tiny_task:TinyTask"


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 240.0) -> Any:
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not happen in {seconds:g} s"
        time.sleep(0.2)


class Federation:
    """Sites reach the SuperLink without a proxy.

    Parameters
    ----------
    profiles
        Lines of each site's ``site.toml`` that stand before its ``[coordinator]``.
    """

    def __init__(self, path: Path, profiles: Mapping[str, str]) -> None:
        self.path = path
        self.folder = FederationFolder(path / "federation")
        self.home = self.folder.state / "fedcomp"
        port, *local = free_ports(1 + len(profiles))
        plan = Plan(hosts=("127.0.0.1",), names=tuple(profiles), port=port, local_port=port)
        create_federation(self.folder.path, plan, now=datetime.now(UTC), programs=BIN)
        for (name, lines), own in zip(profiles.items(), local, strict=True):
            with tarfile.open(self.folder.archive(name)) as archive:
                archive.extractall(path, filter="data")
            profile = self.profile(name)
            before, after = profile.read_text().split("\n[coordinator]\n")
            after = after.replace("local-port = 9094", f"local-port = {own}")
            profile.write_text(f"{before}\n{lines}\n[coordinator]\n{after}")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def profile(self, name: str) -> Path:
        return self.path / name / "site.toml"

    def up(self, *names: str) -> None:
        """Start the coordinator, or sites, and wait until they are up."""
        for name in names:
            words = ["site", "up", "--profile", str(self.profile(name))]
            if name == "coordinator":
                words = ["coordinator", "up", str(self.folder.path)]
            env = environment(self.path / name / "home", PYTHONPATH=str(ROOT), OMP_NUM_THREADS="1")
            with (self.path / f"{name}.out").open("wb") as output:
                self._processes[name] = subprocess.Popen(
                    [BIN / "fedcomp", *words], cwd=self.path, env=env, stdout=output, stderr=subprocess.STDOUT
                )
        for name in names:
            self._wait_until_up(name)
        if "coordinator" in names:
            wait_for(lambda: self.said("coordinator").count("is registered as node") == len(self.names), "registration")

    def _wait_until_up(self, name: str) -> None:
        def up() -> bool:
            assert self._processes[name].poll() is None, self.said(name)
            return " is up, log " in self.said(name)

        wait_for(up, f"start of {name}")

    @property
    def names(self) -> list[str]:
        return list(self.folder.load().active)

    def said(self, name: str) -> str:
        return (self.path / f"{name}.out").read_text()

    @property
    def run_output(self) -> str:
        """What all runs' server apps said so far."""
        path = self.path / "run.out"
        return path.read_text(errors="replace") if path.exists() else ""

    def flwr_run(self, settings: str) -> subprocess.Popen[bytes]:
        """Submit a run, as the guide says."""
        app = stage_app(self.path / "app") if not (self.path / "app").exists() else self.path / "app" / "fedcomp"
        env = environment(self.home, **FLOWER_ENVIRONMENT, FLWR_HOME=str(self.folder.flwr))
        with (self.path / "run.out").open("ab") as output:
            return subprocess.Popen(
                [BIN / "flwr", "run", app, "coordinator", "--stream", "--run-config", settings],
                cwd=self.path,
                env=env,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def record(self) -> dict[str, Any]:
        return record(self.home, self.path)

    def kill(self, program: str, name: str) -> int:
        """Kill -9 the process of Flower's that has this program's and this site's name in its command."""
        mark = str(self.path / name if name != "coordinator" else self.folder.path)
        for found in Path("/proc").glob("[0-9]*"):
            try:
                words = (found / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word.endswith(program) for word in words) and any(mark in word for word in words):
                os.kill(int(found.name), signal.SIGKILL)
                return int(found.name)
        raise AssertionError(f"no {program} of {name} is running")

    def end(self) -> dict[str, int]:
        """SIGTERM all, sites first; return their exit statuses."""
        found = {}
        for name, process in reversed(self._processes.items()):
            process.terminate()
            try:
                found[name] = process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                found[name] = process.wait()
        self._processes = {}
        return found

    def leftovers(self) -> list[str]:
        """Return the commands of live processes that have this federation's folder in them."""
        found = []
        for each in Path("/proc").glob("[0-9]*"):
            try:
                words = (each / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            except OSError:
                continue
            if str(self.path) in words and int(each.name) != os.getpid() and sys.executable in words:
                found.append(words)
        return found
