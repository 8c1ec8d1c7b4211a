"""What EDEN does to rows of a matrix, in one pass each, by the fastest backend for the tensors' device.

All take m rows of n coordinates, n a power of two from 256 to 2^18, float32 and contiguous. Each row loses its mean, is
scaled by a power of two, rotated by ``signs`` of shape (rounds, ≥ n) and normalised; its first ``k`` coordinates are
quantized with ``low`` + 1 bits, the others with ``low``, and packed as ``fedcomp.coding.bitpack`` has it.

Guarantee: every backend decodes to the same bits. Encoders may add the float64 sums in another order, so that a scale
may differ in its last bit and a code where z is within rounding of a boundary; any decoder reads either.

``FEDCOMP_KERNELS`` names the backend: ``auto`` (numba for CPU tensors, Triton for CUDA tensors, where they can be
imported), ``cpu``, ``gpu`` (only that one; other tensors use the reference) or ``reference``.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from functools import cache
from typing import Protocol, cast

import torch
from torch import Tensor

from fedcomp.errors import ConfigError
from fedcomp.kernels import reference

VARIABLE = "FEDCOMP_KERNELS"
_BACKENDS = {"cpu": ("cpu", "fedcomp.kernels.cpu", "numba"), "gpu": ("cuda", "fedcomp.kernels.gpu", "triton")}


class Backend(Protocol):
    """The functions that a backend has; those of this module with the same names say what they do."""

    encode_rows: Callable[..., tuple[Tensor, Tensor]]
    decode_rows: Callable[..., None]
    accumulate_rows: Callable[..., None]
    rotate_rows: Callable[..., Tensor]
    unrotate_rows: Callable[..., Tensor]
    row_moments: Callable[..., tuple[Tensor, Tensor]]
    row_products: Callable[..., Tensor]


def encode_rows(
    blocks: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, unbiased: bool
) -> tuple[Tensor, Tensor]:
    """Map rows to scales, float32 of shape (m,), and codes, uint8 of shape (m, (low·n + k)/8).

    Parameters
    ----------
    blocks
        Shape (m, n), finite.
    means
        Shape (m,), float32: what is subtracted of each row.
    unbiased
        Whether the scale is ‖x‖²/⟨q, y⟩, else ⟨q, y⟩/‖q‖². That of a zero row is 0; one beyond float32 is infinite.
    """
    return backend_for(blocks.device).encode_rows(blocks, means, signs, low=low, k=k, unbiased=unbiased)


def decode_rows(codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, out: Tensor) -> None:
    """Write the estimates of the rows that ``encode_rows`` coded to ``out``, clamped to float32's finite range."""
    backend_for(out.device).decode_rows(codes, scales, means, signs, low=low, k=k, out=out)


def accumulate_rows(
    codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, into: Tensor, weight: float
) -> None:
    """Add ``weight`` times what ``decode_rows`` writes to ``into``, float64, without a second vector of its size."""
    backend_for(into.device).accumulate_rows(codes, scales, means, signs, low=low, k=k, into=into, weight=weight)


def rotate_rows(blocks: Tensor, signs: Tensor) -> Tensor:
    """Return ``fedcomp.transforms.hadamard.rotate`` of the rows, the same bits."""
    return backend_for(blocks.device).rotate_rows(blocks, signs)


def unrotate_rows(blocks: Tensor, signs: Tensor) -> Tensor:
    """Undo ``rotate_rows``."""
    return backend_for(blocks.device).unrotate_rows(blocks, signs)


def row_moments(blocks: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
    """Map rows (m, n) less their means (m,) to their sums and their sums of squares, both (m,), float64.

    The difference is rounded to float32, since that is what is encoded; nothing of the size of ``blocks`` is kept.
    """
    return backend_for(blocks.device).row_moments(blocks, means)


def row_products(left: Tensor, right: Tensor) -> Tensor:
    """Map the rows of two matrices (m, n) to their inner products, float64 of shape (m,), each product exact."""
    return backend_for(left.device).row_products(left, right)


def backend_for(device: torch.device) -> Backend:
    """Return the backend for tensors on a device.

    Raises
    ------
    ConfigError
        When ``FEDCOMP_KERNELS`` is another word, or names a backend that cannot be imported.
    """
    wanted = os.environ.get(VARIABLE, "auto")
    if wanted not in ("auto", "reference", *_BACKENDS):
        raise ConfigError(f"{VARIABLE} is {wanted!r}; allowed: auto, reference, cpu, gpu")
    for name, (kind, module, needs) in _BACKENDS.items():
        if device.type == kind and wanted in ("auto", name):
            backend = _load(module, needs)
            if backend is not None:
                return backend
            if wanted == name:
                raise ConfigError(f"{VARIABLE} is {wanted!r}, but {needs} cannot be imported; install it or use auto")
    return reference


def is_compiled(device: torch.device) -> bool:
    """Return whether tensors on a device are worked on by numba's kernels."""
    return device.type == "cpu" and backend_for(device) is not reference


@cache
def _load(module: str, needs: str) -> Backend | None:
    """Return a backend's module, or None where the package that it needs cannot be imported."""
    try:
        importlib.import_module(needs)
    except ImportError:
        return None
    return cast("Backend", importlib.import_module(module))
