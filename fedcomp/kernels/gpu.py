"""EDEN's inner loops on a CUDA device as Triton kernels: one launch a call, one block a program.

A block of up to 16384 coordinates stays in registers: encoding reads 4 bytes a coordinate and writes its bits, decoding
reads the bits and writes 4 bytes. Longer blocks go to ``fedcomp.kernels.reference``, which is made of torch operations.

Rotations and decoded values are those of the reference to the bit. Encoding adds squares in another order: scales agree
to a relative 1e-6, and indices differ only where a value is within float32's rounding of a cell's boundary.
"""

from __future__ import annotations

import math
import struct
from functools import cache
from typing import Any

import torch
from torch import Tensor

from fedcomp.kernels import gpu_decode, gpu_encode, gpu_rotation, reference
from fedcomp.kernels.gpu_triton import is_installed, require_device
from fedcomp.quantizers.codebook import boundaries, centroids

# Sums along rows are as fast in torch.
row_moments, row_products = reference.row_moments, reference.row_products

__all__ = [
    "accumulate_rows",
    "decode_rows",
    "encode_rows",
    "is_installed",
    "rotate_rows",
    "row_moments",
    "row_products",
    "unrotate_rows",
]

MAX_BLOCK = 16384
"""The longest block that fits into the registers and the shared memory of one program."""


def encode_rows(
    blocks: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, unbiased: bool
) -> tuple[Tensor, Tensor]:
    """Map blocks to their scales and packed indices.

    Parameters
    ----------
    blocks
        Shape (m, n), float32, finite; n a power of two, at least 256.
    means
        Shape (m,), float32: subtracted from the blocks.
    signs
        Shape (rounds, ≥ n), float32, of ``rotation_signs``.
    low, k
        Bits of every coordinate, and how many, from the first, have one more; k is a multiple of 8.
    unbiased
        Which scale: ‖x‖²/⟨q, y⟩, or ⟨q, y⟩/‖q‖² of least squared error.

    Returns
    -------
    tuple[Tensor, Tensor]
        Scales (m,), float32, 0 for a zero block, not finite where one leaves float32's range; codes, uint8, shape
        (m, (low·n + k)/8), as ``coding.bitpack`` lays out the first k coordinates, then the others.

    Raises
    ------
    ConfigError
        When Triton is not installed or the tensors are on no CUDA device.
    """
    m, n = blocks.shape
    if n > MAX_BLOCK:
        return reference.encode_rows(blocks, means, signs, low=low, k=k, unbiased=unbiased)
    scales = torch.empty(m, dtype=torch.float32, device=blocks.device)
    codes = torch.empty((m, (low * n + k) // 8), dtype=torch.uint8, device=blocks.device)
    rate, tables = _rate(low, k, n), _tables(low + (k > 0), blocks.device)
    arguments = (blocks.contiguous(), means.contiguous(), _words(signs, n), *tables, scales, codes, codes.shape[1])
    _launch(gpu_encode.encode_kernel, arguments, m, n, rounds=len(signs), unbiased=unbiased, **rate)
    return scales, codes


def decode_rows(codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, out: Tensor) -> None:
    """Write the estimates of ``encode_rows``' blocks to ``out``, contiguous (m, n) float32, within its finite range.

    Raises
    ------
    ConfigError
        As ``encode_rows``.
    """
    if out.shape[1] > MAX_BLOCK:
        reference.decode_rows(codes, scales, means, signs, low=low, k=k, out=out)
    else:
        _decode(codes, scales, means, signs, low=low, k=k, out=out, weight=None)


def accumulate_rows(
    codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, into: Tensor, weight: float
) -> None:
    """Add ``weight`` times what ``decode_rows`` writes to ``into``, contiguous (m, n) float64.

    The product is rounded before the addition; with a weight below 2^29 it is exact, and the sum that of any backend.

    Raises
    ------
    ConfigError
        As ``encode_rows``.
    """
    if into.shape[1] > MAX_BLOCK:
        reference.accumulate_rows(codes, scales, means, signs, low=low, k=k, into=into, weight=weight)
    else:
        _decode(codes, scales, means, signs, low=low, k=k, out=into, weight=weight)


def rotate_rows(blocks: Tensor, signs: Tensor) -> Tensor:
    """Return what ``transforms.hadamard.rotate`` returns, to the bit.

    Raises
    ------
    ConfigError
        As ``encode_rows``.
    """
    return _rotate(blocks, signs, inverse=False)


def unrotate_rows(blocks: Tensor, signs: Tensor) -> Tensor:
    """Undo ``rotate_rows`` with the same signs, as ``transforms.hadamard.unrotate`` does, to the bit.

    Raises
    ------
    ConfigError
        As ``encode_rows``.
    """
    return _rotate(blocks, signs, inverse=True)


def _decode(
    codes: Tensor,
    scales: Tensor,
    means: Tensor,
    signs: Tensor,
    *,
    low: int,
    k: int,
    out: Tensor,
    weight: float | None,
) -> None:
    m, n = out.shape
    _, table = _tables(low + (k > 0), out.device)
    # Triton takes a float for a float32, but an integer of 64 bits as it is.
    (number,) = struct.unpack("<q", struct.pack("<d", weight or 0.0))
    arguments = (codes.contiguous(), codes.shape[1], scales.contiguous(), means.contiguous(), _words(signs, n), table)
    options = {"rounds": len(signs), "accumulate": weight is not None, **_rate(low, k, n)}
    _launch(gpu_decode.decode_kernel, (*arguments, number, out), m, n, **options)


def _rotate(blocks: Tensor, signs: Tensor, *, inverse: bool) -> Tensor:
    m, n = blocks.shape
    if n > MAX_BLOCK:
        return reference.unrotate_rows(blocks, signs) if inverse else reference.rotate_rows(blocks, signs)
    out = torch.empty((m, n), dtype=torch.float32, device=blocks.device)
    arguments = (blocks.contiguous(), _words(signs, n), out)
    _launch(gpu_rotation.rotation_kernel, arguments, m, n, rounds=len(signs), inverse=inverse)
    return out


def _words(signs: Tensor, n: int) -> Tensor:
    """Return the first n signs of each round as bits."""
    signs = signs if signs.stride(1) == 1 else signs.contiguous()
    a, b = _shape(n)
    words = torch.empty((len(signs), -(-a // 32), b), dtype=torch.int32, device=signs.device)
    _start(gpu_rotation.sign_kernel, (signs, signs.stride(0), words), len(signs), a=a, b=b)
    return words


def _launch(kernel: Any, arguments: tuple[Any, ...], m: int, n: int, *, rounds: int, **options: Any) -> None:
    """Start a program a block."""
    a, b = _shape(n)
    _start(kernel, arguments, m, a=a, b=b, rounds=rounds, factor=math.pow(n, -rounds / 2), **options)


def _start(kernel: Any, arguments: tuple[Any, ...], programs: int, *, a: int, b: int, **options: Any) -> None:
    """Start so many programs on the device of the first tensor."""
    place = arguments[0].device
    require_device(kernel, place.type)
    if programs:
        # Triton launches on the current device, which need not be this one; -1 leaves it as it is.
        with torch.cuda.device(place if place.type == "cuda" else -1):
            kernel[(programs,)](*arguments, a=a, b=b, **options, **launch_options(a))


def launch_options(a: int) -> dict[str, Any]:
    """Return how Triton is to compile a kernel for blocks of a rows.

    As many threads as rows, so that each holds one of them in registers. A fused multiplication and addition would
    round once where the reference rounds twice.
    """
    return {"num_warps": max(1, a // 32), "num_stages": 1, "enable_fp_fusion": False}


def _shape(n: int) -> tuple[int, int]:
    """Return a and b of the a×b view of a block, as ``transforms.hadamard`` sees it."""
    a = 1 << ((n.bit_length() - 1) // 2)
    return a, n // a


def _rate(low: int, k: int, n: int) -> dict[str, int]:
    """Return bits and number of the first coordinates, and bits of the others; a rate of whole bits has no others."""
    return {"k": k, "bits": low + 1, "rest": low if k < n else 0} if k else {"k": n, "bits": low, "rest": 0}


@cache
def _tables(bits: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return boundaries and centroids of ``bits`` bits, then of one bit less, filled up to as many."""
    cpu = torch.device("cpu")
    limits = torch.full((2, (1 << bits) - 1), torch.inf)
    levels = torch.zeros((2, 1 << bits))
    for part, width in enumerate((bits, bits - 1)):
        if width:
            limits[part, : (1 << width) - 1] = boundaries(width, device=cpu)
            levels[part, : 1 << width] = centroids(width, device=cpu)
    return limits.to(device), levels.to(device)
