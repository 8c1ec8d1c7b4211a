"""Start a process whose whole family can be ended, daemons included; it also ends when its starter is killed.

``python -m fedcomp.processes MARK`` is the guard that sees to the latter.
"""

from __future__ import annotations

import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO

MARK = "FEDCOMP_PROCESS_FAMILY"
_LOOK_SECONDS = 1.0
_STANDARD_INPUT = 0


class ProcessFamily:
    """Processes that share a mark in their environment, and all others in their sessions.

    Children of children that start sessions of their own still carry the mark and are found by it. Some, as Ray's
    daemons do, later write over their environment; ``observe``, called now and then, has noted their session by then.
    A guard, one small process more, ends them all where this process is gone before it could, however it went.
    This is for Linux, through /proc; elsewhere the process groups must do, and there is no guard.

    Parameters
    ----------
    mark
        That of a family which another process started; by default a new one.
    """

    def __init__(self, mark: str | None = None) -> None:
        self._mark = secrets.token_hex(16) if mark is None else mark
        self._started: list[subprocess.Popen[bytes]] = []
        self._sessions: set[int] = set()
        self._guard: subprocess.Popen[bytes] | None = None

    def start(
        self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str], output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start a command in a session of its own, so that Ctrl-C in the terminal does not reach it."""
        if self._guard is None and Path("/proc/self").exists():
            self._guard = _start_guard(self._mark, cwd)
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

    def observe(self) -> None:
        """Note the sessions of all processes that carry the mark now."""
        for pid in self._carriers():
            try:
                self._sessions.add(os.getsid(pid))
            except ProcessLookupError:
                continue

    def end(self, *, grace: float = 10.0) -> None:
        """End all of them: politely first, after ``grace`` seconds by force."""
        for name in (signal.SIGTERM, signal.SIGKILL):
            for process in self._started:
                _signal_group(process, name)
            for pid in self._members():
                _signal(pid, name)
            if self._wait(grace):
                break
        if self._guard is not None:
            # The guard takes the end of its input for ours, finds nobody left to end, and ends.
            self._guard.communicate()
            self._guard = None

    def _wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all(process.poll() is not None for process in self._started) and not self._members():
                return True
            time.sleep(0.1)
        return False

    def _members(self) -> list[int]:
        self.observe()
        return [pid for pid, session in _live_processes() if session in self._sessions]

    def _carriers(self) -> list[int]:
        wanted = f"{MARK}={self._mark}".encode()
        found = []
        for pid, _ in _live_processes():
            try:
                if wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    found.append(pid)
            except OSError:
                continue  # it ended, or is another user's
        return found


def _start_guard(mark: str, cwd: Path) -> subprocess.Popen[bytes]:
    """Start the guard of a family; the system closes its standard input when this process is gone."""
    return subprocess.Popen(
        [sys.executable, "-m", __name__, mark],
        cwd=cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _guard(mark: str) -> None:
    """Watch over a family until its starter is gone, then end what is left of it."""
    family = ProcessFamily(mark)
    while not select.select([_STANDARD_INPUT], [], [], _LOOK_SECONDS)[0]:
        family.observe()
    family.end()


def _live_processes() -> Iterator[tuple[int, int]]:
    """Yield (process id, session id) of every process that has not ended."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # After the name in parentheses: state, parent, process group, session.
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if state != "Z":
            yield int(folder.name), int(session)


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


if __name__ == "__main__":
    _guard(sys.argv[1])
