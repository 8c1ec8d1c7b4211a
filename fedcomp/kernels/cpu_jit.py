"""How the CPU kernels are compiled: by numba, on first use, kept on disk for the processes that follow."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Compile a function of arrays and numbers when it is first called; it runs without Python's lock.

    No fast-math: every addition is rounded as written. Division by zero gives infinity, as in torch.
    """
    # numba keeps compiled code as long as the function's own file is unchanged; what it calls lies in other files. With
    # the digest of all of them in its name none is ever taken for another.
    function.__qualname__ = f"{function.__qualname__}_{_digest()}"
    compiled: Any
    try:
        compiled = njit(function, nogil=True, error_model="numpy", cache=True)
    except RuntimeError:
        # Neither the package's folder nor the user's cache folder can be written: each process compiles for itself.
        compiled = njit(function, nogil=True, error_model="numpy")
    return cast("Function", compiled)


def _digest() -> str:
    """Return eight letters that change with any of the CPU kernels' sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("cpu*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
