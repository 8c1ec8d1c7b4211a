from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fedcomp.site import supervisor
from fedcomp.site.errors import NotWritten
from fedcomp.site.supervisor import Program, keep_up

# Writes down who it and its child are, listens, and waits; with a file named `refuse` it ends at once.
SERVER = """
import os, pathlib, socket, subprocess, sys, time
if pathlib.Path("refuse").exists():
    sys.exit("refused: no such key")
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
with open("pids", "a") as file:
    print(os.getpid(), child.pid, os.environ["GIVEN"], file=file)
time.sleep(600)
"""


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Kept:
    """A program kept up by a thread."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.folder, self.said, self.ups = folder, list[str](), 0
        self.program = Program(
            "the server",
            (sys.executable, "-c", SERVER, str(port)),
            folder,
            folder / "logs" / "log",
            port,
            {"GIVEN": "7"},
        )
        self.stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Kept:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        keep_up(self.program, self.stop, say=self.said.append, on_up=self._up, pause=0.2)

    def _up(self) -> None:
        self.ups += 1

    def pids(self) -> list[list[int]]:
        path = self.folder / "pids"
        return [[int(word) for word in line.split()] for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    with Kept(tmp_path) as found:
        yield found


def test_a_killed_program_is_started_again_and_leaves_nothing_behind(kept: Kept) -> None:
    wait_for(lambda: kept.ups == 1)
    assert kept.said == [f"the server is up, log {kept.program.log}"]
    ((first, its_child, given),) = kept.pids()
    assert given == 7
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: kept.ups == 2)
    # Its child would have held the port, had it listened.
    assert not alive(its_child)
    assert kept.said[1].startswith("the server ended with status -9, next try in 0.2 s; it said last:")
    second, another, _ = kept.pids()[1]
    kept.stop.set()
    wait_for(lambda: not alive(second) and not alive(another))
    wait_for(lambda: kept.said[-1] == "the server is stopped")


def test_why_it_does_not_start_is_told(tmp_path: Path) -> None:
    (tmp_path / "refuse").touch()
    with Kept(tmp_path) as kept:
        wait_for(lambda: len(kept.said) > 1)
        assert all(
            line == "the server ended with status 1, next try in 0.2 s; it said last:\n  refused: no such key"
            for line in kept.said
        )
        assert kept.ups == 0
        (tmp_path / "refuse").unlink()
        wait_for(lambda: kept.ups == 1)


def test_the_last_error_comes_before_what_was_said_after_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("ERROR of an earlier start\n")
    start = log.stat().st_size
    with log.open("a") as file:
        file.write(
            "INFO starting\n\x1b[91mERROR \x1b[0m: Exit Code: 305\nNo such key.\n\n[code: 2004]\nINFO bye\nINFO gone\n"
        )
    assert supervisor._last_lines(log, start) == ["ERROR : Exit Code: 305", "No such key.", "[code: 2004]"]


def test_a_long_log_is_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervisor, "_LONGEST_LOG", 10)
    (tmp_path / "refuse").touch()
    with Kept(tmp_path) as kept:
        wait_for(lambda: len(kept.said) > 2)
    assert kept.program.log.with_name("log.1").read_text() == "refused: no such key\n"
    assert kept.program.log.read_text().count("refused") <= 1


def test_a_log_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file in the way")
    kept = Kept(tmp_path)
    with pytest.raises(NotWritten, match="logs/log cannot be written"):
        keep_up(kept.program, kept.stop, say=kept.said.append)
