"""EDEN on rows of a matrix, one row at a time in a core's second cache: the loops behind ``fedcomp.kernels.cpu``."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedcomp.kernels.cpu_bits import pack, unpack
from fedcomp.kernels.cpu_hadamard import hadamard
from fedcomp.kernels.cpu_jit import jit
from fedcomp.kernels.cpu_quantize import TILE, Codebook, Workspace, quantize
from fedcomp.kernels.cpu_sums import LANES, add_products, add_squares, add_values, raise_to_magnitudes
from fedcomp.kernels.cpu_vectors import fused_multiply_add

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Bytes = NDArray[np.uint8]

_MODERATE = 40
"""Rows between 2^−40 and 2^40 are not scaled."""


@jit
def encode(
    blocks: Floats,
    means: Floats,
    signs: Floats,
    high: Codebook,
    low: Codebook,
    k: int,
    space: Workspace,
    scales: Floats,
    codes: Bytes,
) -> None:
    """Fill scales (m,) and codes (m, bytes) from blocks (m, n); the first k coordinates use the codebook ``high``."""
    m, n = blocks.shape
    work, cells = np.empty(n, np.float32), np.empty(n, np.uint8)
    unit = np.float32(math.pow(n, -signs.shape[0] / 2))
    cut = high.bits * k // 8
    for i in range(m):
        exponent, norm2 = _load(blocks[i], means[i], work, space)
        for index in range(signs.shape[0]):
            hadamard(work, signs[index])
        # A zero block divides by one, so its cells are some constant; its scale of zero makes it decode to zero.
        factor = np.float32(1 / math.sqrt((norm2 if norm2 > 0 else 1.0) / n))
        space.products[:] = 0
        space.squares[:] = 0
        quantize(work[:k], unit, factor, high, space, cells[:k])
        pack(cells[:k], high.bits, codes[i, :cut])
        if low.bits > 0:
            quantize(work[k:], unit, factor, low, space, cells[k:])
            pack(cells[k:], low.bits, codes[i, cut:])
        inner = space.products.sum() * unit
        ratio = inner / space.squares.sum() if space.squared else norm2 / inner
        scales[i] = np.float32(math.ldexp(ratio, exponent)) if norm2 > 0 else np.float32(0)


@jit
def decode(
    codes: Bytes,
    scales: Floats,
    means: Floats,
    signs: Floats,
    high: Codebook,
    low: Codebook,
    k: int,
    out: Floats,
) -> None:
    """Fill ``out`` (m, n) with the estimates, clamped to float32's finite range."""
    cells = np.empty(out.shape[1], np.uint8)
    ones = np.ones(out.shape[1], np.float32)
    for i in range(out.shape[0]):
        _estimate(codes[i], scales[i], means[i], signs, high, low, k, cells, ones, out[i])


@jit
def accumulate(
    codes: Bytes,
    scales: Floats,
    means: Floats,
    signs: Floats,
    high: Codebook,
    low: Codebook,
    k: int,
    into: Doubles,
    weight: float,
) -> None:
    """Add ``weight`` times the estimates to ``into`` (m, n)."""
    cells = np.empty(into.shape[1], np.uint8)
    ones = np.ones(into.shape[1], np.float32)
    row = np.empty(into.shape[1], np.float32)
    for i in range(into.shape[0]):
        _estimate(codes[i], scales[i], means[i], signs, high, low, k, cells, ones, row)
        total = into[i]
        for j in range(row.size):
            # torch's own addition of a multiple rounds once, too.
            total[j] = fused_multiply_add(weight, np.float64(row[j]), total[j])


@jit
def rotate(blocks: Floats, signs: Floats, out: Floats) -> None:
    """Fill ``out`` with the rotated rows of blocks, both (m, n)."""
    unit = np.float32(math.pow(blocks.shape[1], -signs.shape[0] / 2))
    for i in range(blocks.shape[0]):
        row = out[i]
        row[:] = blocks[i]
        for index in range(signs.shape[0]):
            hadamard(row, signs[index])
        for j in range(row.size):
            row[j] *= unit


@jit
def unrotate(blocks: Floats, signs: Floats, out: Floats) -> None:
    """Undo ``rotate``."""
    unit = np.float32(math.pow(blocks.shape[1], -signs.shape[0] / 2))
    ones = np.ones(blocks.shape[1], np.float32)
    for i in range(blocks.shape[0]):
        row = out[i]
        row[:] = blocks[i]
        _undo(row, signs, ones)
        for j in range(row.size):
            row[j] = row[j] * signs[0, j] * unit


@jit
def moments(blocks: Floats, means: Floats, sums: Doubles, energies: Doubles) -> None:
    """Fill the sums and the sums of squares of each row of blocks less its mean, both (m,)."""
    work = np.empty(TILE, np.float32)
    values, squares = np.empty(LANES), np.empty(LANES)
    for i in range(blocks.shape[0]):
        values[:] = 0
        squares[:] = 0
        for start in range(0, blocks.shape[1], TILE):
            tile = blocks[i, start : start + TILE]
            if means[i] != 0:
                _subtract(tile, means[i], work)
                tile = work[: tile.size]
            add_values(tile, values)
            add_squares(tile, squares)
        sums[i], energies[i] = values.sum(), squares.sum()


@jit
def products(left: Floats, right: Floats, inner: Doubles) -> None:
    """Fill the inner products of the rows of two matrices (m, n)."""
    lanes = np.empty(LANES)
    for i in range(left.shape[0]):
        lanes[:] = 0
        add_products(left[i], right[i], lanes)
        inner[i] = lanes.sum()


@jit
def _load(block: Floats, mean: np.float32, work: Floats, space: Workspace) -> tuple[int, float]:
    """Fill ``work`` with the block less its mean, times 2^−e, all near one; return e and the squared norm of it."""
    squares, magnitudes = space.squares, space.levels[:LANES]
    squares[:] = 0
    magnitudes[:] = 0
    for start in range(0, block.size, TILE):
        tile = work[start : start + TILE]
        _subtract(block[start : start + TILE], mean, tile)
        raise_to_magnitudes(tile, magnitudes)
        add_squares(tile, squares)
    exponent = math.frexp(np.float64(magnitudes.max()))[1]
    if abs(exponent) <= _MODERATE:
        # Powers of two commute with all that follows, rounding included, as long as nothing is near float32's limits.
        return 0, squares.sum()
    half = exponent >> 1
    first, second = np.float32(math.ldexp(1.0, -half)), np.float32(math.ldexp(1.0, half - exponent))
    for j in range(work.size):
        work[j] = work[j] * first * second
    # In float64 no square of a float32 overflows, so that its power of two may as well come last.
    return exponent, math.ldexp(squares.sum(), -2 * exponent)


@jit
def _subtract(block: Floats, mean: np.float32, work: Floats) -> None:
    for j in range(block.size):
        work[j] = block[j] - mean


@jit
def _undo(row: Floats, signs: Floats, ones: Floats) -> None:
    """Undo all rounds of a rotation but for the signs of the first and the factor."""
    hadamard(row, ones)
    for index in range(signs.shape[0] - 1, 0, -1):
        hadamard(row, signs[index])


@jit
def _estimate(
    codes: Bytes,
    scale: float,
    mean: float,
    signs: Floats,
    high: Codebook,
    low: Codebook,
    k: int,
    cells: Bytes,
    ones: Floats,
    row: Floats,
) -> None:
    """Fill ``row`` (n,) with the estimate of one block."""
    unit = np.float32(math.pow(row.size, -signs.shape[0] / 2))
    limit = np.float32(np.finfo(np.float32).max)
    cut = high.bits * k // 8
    unpack(codes[:cut], high.bits, cells[:k])
    for j in range(k):
        row[j] = high.centroids[cells[j]]
    if low.bits > 0:
        unpack(codes[cut:], low.bits, cells[k:])
        for j in range(k, row.size):
            row[j] = low.centroids[cells[j]]
    else:
        row[k:] = 0
    _undo(row, signs, ones)
    for j in range(row.size):
        value = row[j] * signs[0, j] * unit * scale + mean
        value = limit if value > limit else value
        row[j] = -limit if value < -limit else value
