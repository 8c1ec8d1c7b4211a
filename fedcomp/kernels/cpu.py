"""The kernels of ``fedcomp.kernels.eden_rows`` for CPU tensors, compiled by numba, on as many threads as torch uses.

A row goes through all steps while it lies in a core's second cache, so that the vector is read and its result written
once. ``cpu_eden`` has the loops. Rows are dealt out to plain threads, which numba's own pools are not: those end the
process when two threads enter them, or after a fork.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from fedcomp.kernels import cpu_eden, reference
from fedcomp.kernels.cpu_hadamard import LARGEST, SMALLEST
from fedcomp.kernels.cpu_quantize import codebook_of, workspace

_PIECE = 2**19
"""Coordinates a thread takes at a time, a millisecond's work: less is not worth a second thread."""


def encode_rows(
    blocks: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, unbiased: bool
) -> tuple[Tensor, Tensor]:
    """Map rows to scales and packed codes."""
    m, n = blocks.shape
    scales = torch.empty(m, dtype=torch.float32)
    codes = torch.empty((m, (low * n + k) // 8), dtype=torch.uint8)
    high = codebook_of(low + 1 if k else low)
    rows, offsets, targets, packed = (item.numpy() for item in (blocks.contiguous(), means, scales, codes))
    flips = signs.contiguous().numpy()

    def work(part: slice) -> None:
        space = workspace(squared=not unbiased)
        cpu_eden.encode(rows[part], offsets[part], flips, high, codebook_of(low), k, space, targets[part], packed[part])

    deal_out(blocks, work)
    return scales, codes


def decode_rows(codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, out: Tensor) -> None:
    """Write the estimates of all rows to a contiguous ``out``."""
    high = codebook_of(low + 1 if k else low)
    packed, factors, offsets, flips, rows = (item.numpy() for item in (codes, scales, means, signs.contiguous(), out))

    def work(part: slice) -> None:
        cpu_eden.decode(packed[part], factors[part], offsets[part], flips, high, codebook_of(low), k, rows[part])

    deal_out(out, work)


def accumulate_rows(
    codes: Tensor, scales: Tensor, means: Tensor, signs: Tensor, *, low: int, k: int, into: Tensor, weight: float
) -> None:
    """Add ``weight`` times the estimates of all rows to a contiguous ``into``."""
    high, factor = codebook_of(low + 1 if k else low), float(weight)
    packed, factors, offsets, flips, sums = (item.numpy() for item in (codes, scales, means, signs.contiguous(), into))

    def work(part: slice) -> None:
        cpu_eden.accumulate(
            packed[part], factors[part], offsets[part], flips, high, codebook_of(low), k, sums[part], factor
        )

    deal_out(into, work)


def rotate_rows(blocks: Tensor, signs: Tensor) -> Tensor:
    """Return the rotated rows; rows that are too short or too long for the kernel go to the reference."""
    return _transform(blocks, signs, cpu_eden.rotate) if _fits(blocks) else reference.rotate_rows(blocks, signs)


def unrotate_rows(blocks: Tensor, signs: Tensor) -> Tensor:
    """Undo ``rotate_rows``."""
    return _transform(blocks, signs, cpu_eden.unrotate) if _fits(blocks) else reference.unrotate_rows(blocks, signs)


def row_moments(blocks: Tensor, means: Tensor) -> tuple[Tensor, Tensor]:
    """Map rows less their means to their sums and sums of squares."""
    sums, energies = torch.empty((2, len(blocks)), dtype=torch.float64)
    rows, offsets, first, second = (item.numpy() for item in (blocks.contiguous(), means, sums, energies))

    def work(part: slice) -> None:
        cpu_eden.moments(rows[part], offsets[part], first[part], second[part])

    deal_out(blocks, work)
    return sums, energies


def row_products(left: Tensor, right: Tensor) -> Tensor:
    """Map rows to their inner products."""
    products = torch.empty(len(left), dtype=torch.float64)
    first, second, targets = left.contiguous().numpy(), right.contiguous().numpy(), products.numpy()

    def work(part: slice) -> None:
        cpu_eden.products(first[part], second[part], targets[part])

    deal_out(left, work)
    return products


def _fits(blocks: Tensor) -> bool:
    return SMALLEST <= blocks.shape[1] <= LARGEST and blocks.dtype == torch.float32


def _transform(blocks: Tensor, signs: Tensor, kernel: Callable[..., None]) -> Tensor:
    out = torch.empty(blocks.shape, dtype=torch.float32)
    rows, flips, targets = (item.numpy() for item in (blocks.contiguous(), signs.contiguous(), out))

    def work(part: slice) -> None:
        kernel(rows[part], flips, targets[part])

    deal_out(blocks, work)
    return out


def deal_out(rows: Tensor, work: Callable[[slice], None], *, piece: int | None = None) -> None:
    """Do the work for all rows, those of ``piece`` coordinates at a time, a millisecond's work when not given."""
    m, n = rows.shape
    step = max(1, (piece or _PIECE) // n)
    threads = min(torch.get_num_threads(), -(-m // step))
    if threads <= 1:
        work(slice(0, m))
        return
    with ThreadPoolExecutor(threads) as pool:
        # Taking all results raises what a thread raised.
        list(pool.map(work, (slice(first, min(first + step, m)) for first in range(0, m, step))))
