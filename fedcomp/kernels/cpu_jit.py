"""How the CPU kernels are compiled: by numba, on first use, kept on disk for the processes that follow."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import platformdirs
from numba import njit

Function = TypeVar("Function", bound=Callable[..., object])


def jit(function: Function) -> Function:
    """Compile a function of arrays and numbers when it is first called; it runs without Python's lock.

    No fast-math: every addition is rounded as written. Division by zero gives infinity, as in torch.
    """
    # numba keeps compiled code as long as the function's own file is unchanged; what it calls lies in other files. With
    # the digest of all of them in its name none is ever taken for another.
    function.__qualname__ = f"{function.__qualname__}_{_digest()}"
    _give_a_lasting_source(function)
    compiled: Any
    try:
        compiled = njit(function, nogil=True, error_model="numpy", cache=True)
    except RuntimeError:
        # Neither the package's folder nor the user's cache folder can be written: each process compiles for itself.
        compiled = njit(function, nogil=True, error_model="numpy")
    return cast("Function", compiled)


def _give_a_lasting_source(function: Callable[..., object]) -> None:
    """Let the function say that its source lies in the user's cache, where numba keeps its compiled form beside it.

    Flower unpacks an app into a new folder for every simulation; compiled code that lay there would be made each time.
    """
    source = Path(function.__code__.co_filename)
    lasting = platformdirs.user_cache_path("fedcomp", appauthor=False) / f"kernels-{_digest()}" / source.name
    try:
        if not lasting.exists():
            lasting.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=lasting.parent, delete=False) as file:
                file.write(source.read_bytes())
            Path(file.name).replace(lasting)
    except OSError:
        return
    function.__code__ = function.__code__.replace(co_filename=str(lasting))


def _digest() -> str:
    """Return eight letters that change with any of the CPU kernels' sources."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("cpu*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]
