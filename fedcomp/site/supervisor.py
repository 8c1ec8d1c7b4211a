"""Keeping a long-running program up: started again whenever it ends, ended with all it started when told to.

Flower refuses a SuperNode whose connection broke for up to a minute after that, and a coordinator's host may come back
long after a site's: a program that ends is started again for as long as it takes, with a pause between.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from fedcomp.processes import ProcessFamily
from fedcomp.site.errors import NotWritten

_LOOK_SECONDS = 0.5
_HEALTH_SECONDS = 5.0
_GRACE_SECONDS = 30.0
_LONGEST_LOG = 50_000_000
_TAIL_BYTES, _TAIL_LINES = 20_000, 3
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Program:
    """What is kept up.

    Attributes
    ----------
    name
        What messages call it.
    command
        The program and its arguments.
    environment
        Variables beside this process's own.
    folder
        Where it is started.
    log
        What it prints goes to the end of this file; one longer than 50 MB is put aside first, as ``.1``.
    port
        A port on loopback that it listens on when it is up.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    log: Path
    port: int
    environment: Mapping[str, str] = field(default_factory=dict)


def keep_up(
    program: Program,
    stop: threading.Event,
    *,
    say: Callable[[str], None],
    on_up: Callable[[], None] = lambda: None,
    pause: float = 15.0,
) -> None:
    """Run a program until ``stop`` is set, again after every end; then end it and all that it started.

    Parameters
    ----------
    say
        Is told, in a line each, when it is up, when it stops answering, and when it ended: with its last error, or
        else the log's last lines.
    on_up
        Called each time it is up.
    pause
        Seconds between an end and the next start.

    Raises
    ------
    NotWritten
        When its log cannot be written.
    """
    while not stop.is_set():
        start_of_log = _make_room(program.log)
        family = ProcessFamily()
        try:
            with _open(program.log) as output:
                process = family.start(
                    program.command, cwd=program.folder, env={**os.environ, **program.environment}, output=output
                )
            up = False
            next_look = time.monotonic()
            while process.poll() is None and not stop.wait(_LOOK_SECONDS):
                if time.monotonic() < next_look:
                    continue
                answers = _answers(program.port)
                if answers != up:
                    say(f"{program.name} is up, log {program.log}" if answers else f"{program.name} does not answer")
                    if answers:
                        on_up()
                up = answers
                next_look = time.monotonic() + (_HEALTH_SECONDS if up else _LOOK_SECONDS)
        finally:
            family.end(grace=_GRACE_SECONDS)
        if not stop.is_set():
            last = "".join(f"\n  {line}" for line in _last_lines(program.log, start_of_log))
            say(f"{program.name} ended with status {process.returncode}, next try in {pause:g} s; it said last:{last}")
            stop.wait(pause)
    say(f"{program.name} is stopped")


def _open(log: Path) -> IO[bytes]:
    try:
        return log.open("ab")
    except OSError as error:
        raise NotWritten(f"the log {log} cannot be written: {error.strerror}; make room, or mend its rights") from error


def _make_room(log: Path) -> int:
    """Put a long log aside; return where the next line will be."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if log.exists() and log.stat().st_size > _LONGEST_LOG:
            log.replace(log.with_name(log.name + ".1"))
        return log.stat().st_size if log.exists() else 0
    except OSError as error:
        raise NotWritten(f"the log {log} cannot be written: {error.strerror}; make room, or mend its rights") from error


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0):
            return True
    except OSError:
        return False


def _last_lines(log: Path, start: int) -> list[str]:
    with log.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(start, size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    lines = [line.strip() for line in _COLOURS.sub("", text).splitlines() if line.strip()]
    # Flower says why it ends, and then at length that it does.
    reasons = [number for number, line in enumerate(lines) if "ERROR" in line]
    found = lines[reasons[-1] :][:_TAIL_LINES] if reasons else lines[-_TAIL_LINES:]
    return found or ["(it said nothing)"]
