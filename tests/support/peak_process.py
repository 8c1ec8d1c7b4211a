"""Peak memory of a script in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]

# malloc then maps every vector on its own and unmaps it when it is freed. Left alone, it keeps freed memory and cuts
# new vectors from it where they fit: how much of that there is moves a peak by several models from run to run.
_EXACT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "MALLOC_ARENA_MAX": "1"}


def printed_peak(script: str, *arguments: str) -> float:
    """Run a script that prints its peak memory as its last line, and return that.

    Each run has a process of its own: what an earlier one left to malloc would be used again, and not count. What the
    garbage collector has not yet taken comes on top at times, so the least of two runs is what is needed.
    """
    found = []
    for _ in range(2):
        command = [sys.executable, "-c", script, *arguments]
        shown = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=_ROOT, env={**os.environ, **_EXACT}
        )
        if shown.returncode:
            raise AssertionError(shown.stderr)
        found.append(float(shown.stdout.splitlines()[-1]))
    return min(found)
