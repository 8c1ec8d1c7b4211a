"""From rotated coordinates to cells of a codebook, exactly as ``fedcomp.quantizers.codebook.quantize`` has it."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from fedcomp.kernels.cpu_jit import jit
from fedcomp.kernels.cpu_sums import LANES, add_products, add_squares
from fedcomp.quantizers import codebook

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]

TILE = 1024
"""Coordinates worked on at a time: what there is of each fits a core's first cache."""

_PER_UNIT, _REACH = 64, 4.5
"""Bins of 1/64, narrower than any cell of any codebook, from −4.5 to 4.5, beyond the last boundary."""


class Codebook(NamedTuple):
    """One codebook as the kernels need it.

    Attributes
    ----------
    bits, centroids, boundaries
        As ``fedcomp.quantizers.codebook`` has them.
    below, inside
        For each bin how many boundaries lie below it, and the one inside it, infinite where there is none.
    """

    bits: int
    centroids: Floats
    boundaries: Floats
    below: Ints
    inside: Floats


class Workspace(NamedTuple):
    """Room for ``quantize`` to work in.

    Attributes
    ----------
    z, levels, bins, found
        Shape (TILE,).
    products, squares
        Lanes of Σ q·x and Σ q².
    squared
        Whether Σ q² is wanted; else it stays as it is.
    """

    z: Floats
    levels: Floats
    bins: Ints
    found: Ints
    products: Doubles
    squares: Doubles
    squared: bool


def workspace(*, squared: bool) -> Workspace:
    """Return room for one thread."""
    floats, ints, lanes = np.empty((2, TILE), np.float32), np.empty((2, TILE), np.int32), np.zeros((2, LANES))
    return Workspace(floats[0], floats[1], ints[0], ints[1], lanes[0], lanes[1], squared)


@cache
def codebook_of(bits: int) -> Codebook:
    """Return the codebook of 0 to 8 bits; that of 0 bits has the centroid 0."""
    if bits == 0:
        levels, between = torch.zeros(1), torch.zeros(0)
    else:
        device = torch.device("cpu")
        levels, between = codebook.centroids(bits, device=device), codebook.boundaries(bits, device=device)
    boundaries = between.numpy()
    edges = (np.arange(-_REACH, _REACH, 1 / _PER_UNIT)).astype(np.float32)
    below = np.searchsorted(boundaries, edges, side="left").astype(np.int32)
    until = np.append(below[1:], np.int32(boundaries.size))
    padded = np.append(boundaries, np.float32(np.inf))
    inside = np.where(until > below, padded[below], np.float32(np.inf)).astype(np.float32)
    return Codebook(bits, levels.numpy(), boundaries, below, inside)


@jit
def quantize(x: Floats, unit: np.float32, factor: np.float32, book: Codebook, space: Workspace, cells: Bytes) -> None:
    """Map rotated coordinates y = unit·x to the cells of z = factor·y, and add Σ q·x and Σ q², q the centroids.

    Parameters
    ----------
    x
        Shape (n,).
    space
        Where the sums go, and room to work in.
    cells
        Shape (n,): where the cells' indices go.
    """
    z, found = space.z, space.found
    for start in range(0, x.size, TILE):
        tile, target = x[start : start + TILE], cells[start : start + TILE]
        levels = space.levels[: tile.size]
        for j in range(tile.size):
            z[j] = tile[j] * unit * factor
        if book.bits == 1:
            _compare_1(z, book, found, levels)
        elif book.bits == 2:
            _compare_2(z, book, found, levels)
        else:
            _look_up(z, book, space.bins, found, levels)
        for j in range(tile.size):
            target[j] = found[j]
        add_products(levels, tile, space.products)
        if space.squared:
            add_squares(levels, space.squares)


@jit
def _compare_1(z: Floats, book: Codebook, found: Ints, levels: Floats) -> None:
    """Count the boundaries below each value, so that one on a boundary belongs to the lower cell; there is one."""
    boundary, lower, upper = book.boundaries[0], book.centroids[0], book.centroids[1]
    for j in range(levels.size):
        found[j] = np.int32(z[j] > boundary)
    for j in range(levels.size):
        levels[j] = upper if z[j] > boundary else lower


@jit
def _compare_2(z: Floats, book: Codebook, found: Ints, levels: Floats) -> None:
    """Count the boundaries below each value; there are three."""
    first, second, third = book.boundaries[0], book.boundaries[1], book.boundaries[2]
    a, b, c, d = book.centroids[0], book.centroids[1], book.centroids[2], book.centroids[3]
    for j in range(levels.size):
        found[j] = np.int32(z[j] > first) + np.int32(z[j] > second) + np.int32(z[j] > third)
    for j in range(levels.size):
        lower = b if z[j] > first else a
        upper = d if z[j] > third else c
        levels[j] = upper if z[j] > second else lower


@jit
def _look_up(z: Floats, book: Codebook, bins: Ints, found: Ints, levels: Floats) -> None:
    """Find each value's bin, then compare with the one boundary that may lie inside."""
    least, most = np.float32(-_REACH * _PER_UNIT), np.float32(_REACH * _PER_UNIT - 1)
    for j in range(levels.size):
        # Multiplication by a power of two and rounding down are exact, so the bin is the right one.
        scaled = z[j] * np.float32(_PER_UNIT)
        # In this order NaN, which a row beyond float32's range becomes, has a bin too.
        scaled = scaled if scaled > least else least
        scaled = scaled if scaled < most else most
        bins[j] = np.int32(np.floor(scaled)) + np.int32(_REACH * _PER_UNIT)
    for j in range(levels.size):
        levels[j] = book.inside[np.uint32(bins[j])]
    for j in range(levels.size):
        found[j] = book.below[np.uint32(bins[j])]
    for j in range(levels.size):
        found[j] += np.int32(z[j] > levels[j])
    for j in range(levels.size):
        levels[j] = book.centroids[np.uint32(found[j])]
