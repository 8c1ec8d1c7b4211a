"""The same bits each time, also on a GPU."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

_WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"


@contextmanager
def deterministic(enabled: bool) -> Iterator[None]:
    """Let torch use deterministic algorithms only; afterwards all its switches are as before.

    An operation without such an algorithm raises RuntimeError, which names it. cuBLAS reads its own setting when it is
    first used: a process that has multiplied matrices on the GPU before must set ``CUBLAS_WORKSPACE_CONFIG=:4096:8``
    itself. Source: torch's documentation, "Reproducibility".
    """
    if not enabled:
        yield
        return
    cudnn = torch.backends.cudnn
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    flags = cudnn.deterministic, cudnn.benchmark
    workspace = os.environ.get(_WORKSPACE)
    try:
        os.environ.setdefault(_WORKSPACE, ":4096:8")
        torch.use_deterministic_algorithms(True)
        cudnn.deterministic, cudnn.benchmark = True, False
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        cudnn.deterministic, cudnn.benchmark = flags
        if workspace is None:
            os.environ.pop(_WORKSPACE, None)
