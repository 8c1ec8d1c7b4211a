"""Start a process whose whole family can be ended, daemons included."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

MARK = "FEDCOMP_PROCESS_FAMILY"


class ProcessFamily:
    """Processes that share a mark in their environment.

    Children of children that leave the process group, as Ray's daemons do, still carry the mark and are found by it
    (on Linux, through /proc; elsewhere the process groups must do).
    """

    def __init__(self) -> None:
        self._mark = secrets.token_hex(16)
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, so that Ctrl-C in the terminal does not reach it."""
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env={**env, MARK: self._mark},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def end(self, *, grace: float = 10.0) -> None:
        """End all of them: politely first, after ``grace`` seconds by force."""
        for name in (signal.SIGTERM, signal.SIGKILL):
            for process in self._started:
                _signal_group(process, name)
            for pid in self._marked():
                _signal(pid, name)
            if self._wait(grace):
                return

    def _wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all(process.poll() is not None for process in self._started) and not self._marked():
                return True
            time.sleep(0.1)
        return False

    def _marked(self) -> list[int]:
        wanted = f"{MARK}={self._mark}".encode()
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0") and not _is_zombie(folder):
                    found.append(int(folder.name))
            except OSError:
                continue  # it ended, or is another user's
        return found


def _is_zombie(folder: Path) -> bool:
    return (folder / "stat").read_text().rpartition(")")[2].split()[0] == "Z"


def _signal_group(process: subprocess.Popen[bytes], name: signal.Signals) -> None:
    try:
        os.killpg(process.pid, name)
    except (ProcessLookupError, PermissionError):
        return


def _signal(pid: int, name: signal.Signals) -> None:
    try:
        os.kill(pid, name)
    except (ProcessLookupError, PermissionError):
        return
