"""Triton where it is installed: the one place that knows it may be absent.

Triton is no dependency; it comes with a CUDA build of torch. Without it the kernels' modules can be imported all the
same, and a call says what to install.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fedcomp.errors import ConfigError

try:
    import triton
    import triton.language as tl
except ImportError:
    triton, tl = None, None

__all__ = ["is_installed", "jit", "require_device", "tl"]


def is_installed() -> bool:
    """Return whether Triton can be used."""
    return triton is not None


def jit(*arguments_never_compiled_in: str) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: the kernel of a function, compiled at its first launch; interpreted if so asked at import.

    Triton compiles values of 1 and multiples of 16 in, a variant each, unless the argument is named here; for a pointer
    that also means loads of one value a thread, so that consecutive threads hold consecutive coordinates.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        return function if triton is None else triton.jit(function, do_not_specialize=arguments_never_compiled_in)

    return decorate


def require_device(kernel: Any, device: str) -> None:
    """Check that ``kernel`` can run on a device of this type.

    Raises
    ------
    ConfigError
        When Triton is not installed, or the device is no CUDA device and the kernel is not interpreted.
    """
    if triton is None:
        raise ConfigError(
            "Triton is not installed; run `pip install triton` (Linux; it comes with a CUDA build of torch)"
        )
    if device != "cuda" and isinstance(kernel, triton.JITFunction):
        raise ConfigError(f"device is '{device}'; Triton's kernels run on a CUDA device; move the tensors there")
