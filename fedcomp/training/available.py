"""How much memory there is, and how much a process took."""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

import torch

_MEMINFO = Path("/proc/meminfo")
_STATUS = Path("/proc/self/status")
_CGROUP = Path("/sys/fs/cgroup")


def available_memory(device: torch.device) -> int | None:
    """Return the bytes that training could still take on a device; None where the system does not tell.

    On a GPU what is free, and what torch holds without using it; on a CPU what Linux counts as available, or less in a
    container with a limit.
    """
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    known = [size for size in (_system_memory(), _container_memory()) if size is not None]
    return min(known, default=None)


def most_resident_memory() -> int:
    """Return the most bytes of the host's memory that this program ever had.

    Asked of Linux itself: `getrusage` counts what a process had before it became this program, which is all that its
    parent had when that forked.
    """
    try:
        found = re.search(r"^VmHWM:\s+(\d+) kB$", _STATUS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def _system_memory() -> int | None:
    try:
        found = re.search(r"^MemAvailable:\s+(\d+) kB$", _MEMINFO.read_text(encoding="utf-8"), flags=re.MULTILINE)
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _container_memory() -> int | None:
    """Return what a container's limit leaves (cgroup v2); pages of files that can be dropped count as free."""
    try:
        limit = (_CGROUP / "memory.max").read_text(encoding="utf-8").strip()
        used = int((_CGROUP / "memory.current").read_text(encoding="utf-8"))
        found = re.search(r"^inactive_file (\d+)$", (_CGROUP / "memory.stat").read_text(encoding="utf-8"), re.MULTILINE)
        return None if limit == "max" else max(0, int(limit) - used + (int(found[1]) if found else 0))
    except (OSError, ValueError):
        return None
