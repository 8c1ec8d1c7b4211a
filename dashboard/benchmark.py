"""How long the dashboard's pages and the calls of its API take on the runs of a database."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import httpx

from dashboard.settings import PREFIX
from dashboard.store import RunStore
from fedcomp.errors import FedcompError

_TIMEOUT_SECONDS = 120.0
_SERVER = """
import sys
from dashboard.serving import serve
from dashboard.settings import load_settings
serve(load_settings(port=0), lambda url: print(url, flush=True))
"""
# The dashboard starts anew for each of these, so that the first call of its first address has everything to load.
_CALLS = (
    (
        ("Compare", "/"),
        ("Compare: its figures", "/api/v1/compare"),
        ("Compare: each run by round", "/api/v1/compare?lines=runs&x=round&y=loss"),
        ("Compare: by seed", "/?group=seed"),
        ("Compare: by bits and name", "/?min_bits=1.5&max_bits=3&name=b"),
        ("list of runs", "/api/v1/runs?limit=200"),
        ("menus", "/api/v1/choices"),
    ),
    (
        ("Run", "/runs/{run}"),
        ("Run: its curves", "/api/v1/runs/{run}/curves"),
        ("Run: 200 rounds", "/api/v1/runs/{run}/rounds"),
        ("Run: all its rounds", "/runs/{run}?all=true"),
        ("Run: clients of a round", "/runs/{run}/rounds/1"),
        ("Run: its clients", "/api/v1/runs/{run}/clients"),
    ),
    (("Clients", "/clients"), ("Clients: one run", "/clients?run={run}"), ("metrics", "/metrics")),
    (("Compressors", "/compressors"),),
)
CALLS = sum(len(group) for group in _CALLS)


class NothingToMeasure(FedcompError):
    """A benchmark was to measure a database without runs."""


class CallFailed(FedcompError):
    """The dashboard did not start, or answered with an error; the message holds what it said."""


@dataclass(frozen=True)
class Timing:
    """Seconds until an address has answered whole.

    Attributes
    ----------
    call
        What was asked for.
    address
        By which address.
    kilobytes
        Length of the answer, before any compression.
    first
        The first call of this address.
    warm, slowest
        Median and maximum of the calls after it.
    """

    call: str
    address: str
    kilobytes: float
    first: float
    warm: float
    slowest: float


def measure(database: str, *, tries: int = 5) -> Iterator[Timing]:
    """Give the times of pages and API calls on a database with runs, from a dashboard in a process of its own.

    Raises
    ------
    NothingToMeasure
        The database has no runs.
    CallFailed
        The dashboard cannot answer.
    """
    with RunStore(database) as store:
        newest = store.list_runs(limit=1)
    if not newest:
        raise NothingToMeasure("this database has no runs to measure with")
    for group in _CALLS:
        with _dashboard(database) as client:
            for call, address in group:
                yield _time(client, call, address.format(run=newest[0].id), tries)


@contextmanager
def _dashboard(database: str) -> Iterator[httpx.Client]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    process = subprocess.Popen(
        [sys.executable, "-c", _SERVER],
        env=kept | {f"{PREFIX}DATABASE": database},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            if not line.startswith("http://"):
                raise CallFailed(f"the dashboard did not start: {line}{process.communicate()[0]}")
            with httpx.Client(base_url=line.strip(), timeout=_TIMEOUT_SECONDS, trust_env=False) as client:
                yield client
        finally:
            process.terminate()


def _time(client: httpx.Client, call: str, address: str, tries: int) -> Timing:
    seconds, length = [], 0
    for _ in range(1 + tries):
        began = time.perf_counter()
        answer = client.get(address)
        seconds.append(time.perf_counter() - began)
        if not answer.is_success:
            raise CallFailed(f"{address} answered {answer.status_code}: {answer.text[:200]!r}")
        length = len(answer.content)
    first, *others = seconds
    return Timing(call, address, length / 1000, first, median(others), max(others))
