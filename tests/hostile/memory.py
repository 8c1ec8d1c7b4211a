"""A limit on memory that makes an unjustified allocation fail where it is made."""

from __future__ import annotations

import resource
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STATM = Path("/proc/self/statm")


@contextmanager
def limited_memory(allowed: int) -> Iterator[None]:
    """Let any allocation fail that would take the process's address space so many bytes above what it is now.

    torch's memory counts as much as Python's; memory that the allocators hold already does not. Without /proc, that is
    outside Linux, nothing is limited.
    """
    if not _STATM.exists():
        yield
        return
    used = int(_STATM.read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + allowed, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class Peak:
    """The most that Python allocated at once, in bytes, once the block that measures it has ended."""

    bytes = 0


@contextmanager
def traced() -> Iterator[Peak]:
    """Measure the peak of Python's own allocations; tracing ends with the block however it ends."""
    peak = Peak()
    tracemalloc.start()
    try:
        yield peak
    finally:
        _, peak.bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
