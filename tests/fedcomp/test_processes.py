from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fedcomp.processes import ProcessFamily
from tests.support.commands import environment, processes_with

# Sleeps whose command line tells them apart from anybody else's.
SECONDS = f"98765.{os.getpid()}"


def sleepers() -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if SECONDS.encode() in (folder / "cmdline").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def start(family: ProcessFamily, script: str, folder: Path) -> None:
    with (folder / "log").open("wb") as output:
        family.start(["sh", "-c", script], cwd=folder, env=environment(folder / "home"), output=output)


def test_children_daemons_and_the_deaf_are_ended(tmp_path: Path) -> None:
    family = ProcessFamily()
    start(
        family, f"sleep {SECONDS} & setsid sleep {SECONDS} & trap '' TERM; sleep {SECONDS}; sleep {SECONDS}", tmp_path
    )
    wait_until(lambda: len(sleepers()) == 3)
    family.end(grace=1.0)
    assert sleepers() == []
    assert processes_with("FEDCOMP_HOME", str(tmp_path / "home")) == []


def test_a_daemon_that_lost_its_mark_is_ended_with_its_session(tmp_path: Path) -> None:
    # As Ray's agents: a session of its own, an environment without the mark, and a parent that is gone.
    family = ProcessFamily()
    start(family, f"setsid sh -c 'env -i sleep {SECONDS} & sleep 1' & sleep 0.5", tmp_path)
    wait_until(lambda: len(sleepers()) == 1)
    family.observe()
    time.sleep(1.5)
    family.end(grace=2.0)
    assert sleepers() == []


def test_other_processes_are_left_alone(tmp_path: Path) -> None:
    mine, other = ProcessFamily(), ProcessFamily()
    start(mine, f"sleep {SECONDS}", tmp_path)
    start(other, f"sleep {SECONDS}", tmp_path)
    try:
        wait_until(lambda: len(sleepers()) == 2)
        mine.end(grace=2.0)
        assert len(sleepers()) == 1
    finally:
        other.end(grace=2.0)
    assert sleepers() == []


def guards() -> set[int]:
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if b"fedcomp.processes" in (folder / "cmdline").read_bytes().split(b"\0"):
                found.add(int(folder.name))
        except OSError:
            continue
    return found


STARTER = f"""
import sys, time
from pathlib import Path
from fedcomp.processes import ProcessFamily
family = ProcessFamily()
with open("log", "wb") as output:
    script = "setsid sleep {SECONDS} & sleep {SECONDS}"
    family.start(["sh", "-c", script], cwd=Path.cwd(), env={{"PATH": "/usr/bin:/bin"}}, output=output)
time.sleep(100)
"""


def test_they_end_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    before = guards()
    with subprocess.Popen([sys.executable, "-c", STARTER], cwd=tmp_path, env=environment(tmp_path / "home")) as starter:
        try:
            wait_until(lambda: len(sleepers()) == 2 and len(guards() - before) == 1)
            time.sleep(1.5)
            assert len(sleepers()) == 2  # the guard waits for the starter's end
        finally:
            starter.send_signal(signal.SIGKILL)
    wait_until(lambda: not sleepers() and not guards() - before, seconds=30)


def test_the_guard_ends_with_the_family(tmp_path: Path) -> None:
    before, family = guards(), ProcessFamily()
    start(family, f"sleep {SECONDS}", tmp_path)
    start(family, f"sleep {SECONDS}", tmp_path)
    assert len(guards() - before) == 1
    family.end(grace=2.0)
    assert guards() - before == set()
