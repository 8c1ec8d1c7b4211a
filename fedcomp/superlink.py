"""A private Flower SuperLink for one simulation: own ports, own FLWR_HOME, own folder, ended with it.

A plain `flwr run` shares one SuperLink with everything else on the machine and leaves it running; a later run of
another app may then import the first app's code.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from fedcomp.config import Value
from fedcomp.errors import FedcompError
from fedcomp.processes import ProcessFamily

CONNECTION = "simulation"
_START_SECONDS = 60.0
_CLI_SECONDS = 60.0


class SuperLinkError(FedcompError):
    """The SuperLink could not be started or did not answer."""


class PrivateSuperLink:
    """Starts on entering the ``with`` block, ends with everything it started on leaving it.

    Parameters
    ----------
    folder
        An empty folder for its database, logs and FLWR_HOME; processes start there.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log_path = folder / "superlink.log"
        self._family = ProcessFamily()
        self._env = _environment(folder)

    def __enter__(self) -> Self:
        try:
            for _ in range(3):
                # Another process may take a free port between looking and starting.
                if self._start():
                    return self
        except BaseException:
            self._family.end()
            raise
        self._family.end()
        raise SuperLinkError(f"flower-superlink did not start; its log is {self.log_path}:\n{tail(self.log_path, 15)}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._family.end()

    def run(
        self, app: Path, *, run_config: Mapping[str, Value], federation: Mapping[str, Value], log_path: Path
    ) -> subprocess.Popen[bytes]:
        """Submit ``app`` with `flwr run --stream`, which ends when the run does; its output goes to ``log_path``."""
        settings = self.folder / "run.toml"
        settings.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in run_config.items()), encoding="utf-8")
        command = [_program("flwr"), "run", str(app), CONNECTION, "--stream", "--run-config", str(settings)]
        command += ["--federation-config", " ".join(f"{key}={_toml(value)}" for key, value in federation.items())]
        with log_path.open("wb") as output:
            return self._family.start(command, cwd=self.folder, env=self._env, output=output)

    def observe(self) -> None:
        """Keep track of what Flower and Ray start, so that all of it can be ended; call now and then."""
        self._family.observe()

    def status(self, flower_run_id: str) -> str:
        """Return what Flower says of the run, such as ``finished:completed``."""
        answer = self._flwr("ls", CONNECTION, "--run-id", flower_run_id, "--format", "json")
        try:
            return str(json.loads(answer)["runs"][0]["status"])
        except (ValueError, KeyError, IndexError) as error:
            raise SuperLinkError(f"`flwr ls` gave no status of run {flower_run_id}: {answer[-500:]}") from error

    def stop(self, flower_run_id: str) -> None:
        """Ask Flower to stop the run."""
        self._flwr("stop", flower_run_id, CONNECTION)

    def _start(self) -> bool:
        http_port, control_port = _free_ports(2)
        config = self.folder / "config.toml"
        config.write_text(
            f'[superlink]\ndefault = "{CONNECTION}"\n\n[superlink.{CONNECTION}]\n'
            f'address = "127.0.0.1:{http_port}"\ninsecure = true\n',
            encoding="utf-8",
        )
        command = [_program("flower-superlink"), "--insecure", "--simulation", "--isolation", "subprocess"]
        command += ["--host", "127.0.0.1", "--port", str(http_port)]
        command += ["--control-api-address", f"127.0.0.1:{control_port}", "--database", str(self.folder / "state.db")]
        with self.log_path.open("ab") as output:
            process = self._family.start(command, cwd=self.folder, env=self._env, output=output)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline and process.poll() is None:
            if _is_healthy(http_port):
                return True
            time.sleep(0.1)
        return False

    def _flwr(self, *arguments: str) -> str:
        try:
            done = subprocess.run(
                [_program("flwr"), *arguments],
                cwd=self.folder,
                env=self._env,
                capture_output=True,
                text=True,
                timeout=_CLI_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise SuperLinkError(f"`flwr {' '.join(arguments)}` did not answer within {_CLI_SECONDS:g} s") from error
        return done.stdout + done.stderr


def tail(path: Path, lines: int) -> str:
    """Return the last lines of a text file, or a word that there is none."""
    if not path.exists():
        return f"(no log at {path})"
    return "\n".join(path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "FLWR_HOME": str(folder),
        "PATH": os.pathsep.join([*_script_folders(), os.environ.get("PATH", "")]),
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONUNBUFFERED": "1",
    }


def _program(name: str) -> str:
    """Return the path of one of Flower's programs, that of this Python's own environment first."""
    places = os.pathsep.join([*_script_folders(), os.environ.get("PATH", "")])
    found = shutil.which(name, path=places)
    if found is None:
        raise SuperLinkError(f"{name} was not found in {places}; install flwr[simulation] beside fedcomp")
    return found


def _script_folders() -> list[str]:
    return [str(Path(sys.executable).parent), sysconfig.get_path("scripts")]


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for item in sockets:
            item.bind(("127.0.0.1", 0))
        return [item.getsockname()[1] for item in sockets]
    finally:
        for item in sockets:
            item.close()


def _is_healthy(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _toml(value: Value) -> str:
    # JSON's strings, numbers and booleans are TOML's.
    return json.dumps(value)
