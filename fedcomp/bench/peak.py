"""How much memory an action takes at most beside what is there before."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET_PEAK = "5"


def peak_bytes(action: Callable[[], object], device: torch.device) -> int | None:
    """Return the most memory held at once while an action runs, less what was held before.

    On a GPU it is torch's own count of device memory; on a CPU the process's resident memory, as Linux counts it in
    pages, so that a few thousand bytes may not show. None where neither is known.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        action()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    _return_free_memory()
    try:
        _CLEAR.write_text(_RESET_PEAK)
        before = _status("VmRSS")
        action()
        return max(0, _status("VmHWM") - before)
    except OSError:
        return None


def _return_free_memory() -> None:
    """Give the system back what malloc keeps for later: used again, it would not count."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB$", _STATUS.read_text(), flags=re.MULTILINE)
    if found is None:
        raise FileNotFoundError(f"{_STATUS} has no {name}")
    return int(found[1]) * 1024
