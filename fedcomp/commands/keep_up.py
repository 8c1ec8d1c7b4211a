"""What `fedcomp coordinator up` and `fedcomp site up` share: a program kept up until Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from types import FrameType

import typer

from fedcomp.site.supervisor import Program, keep_up


def keep_up_until_signal(program: Program, *, on_up: Callable[[], None] = lambda: None) -> None:
    """Keep a program up, say so in lines with UTC times, and end it on the first SIGINT or SIGTERM."""
    stop = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    before = [(name, signal.signal(name, end)) for name in (signal.SIGINT, signal.SIGTERM)]
    try:
        say(f"starting {program.name}; Ctrl-C or SIGTERM ends it")
        keep_up(program, stop, say=say, on_up=on_up)
    finally:
        for name, handler in before:
            signal.signal(name, handler)


def say(text: str) -> None:
    """Print a line with the time."""
    typer.echo(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {text}")
