"""Sums and maxima along one block, in many lanes at a time.

A sum of floats depends on its order, so a compiler must not split one by itself: ``LANES`` sums run side by side in
float64, and who wants the result adds them. Each loop does one thing; only such loops become vector instructions.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.kernels.cpu_jit import jit

LANES = 256
"""As many as the smallest block has coordinates."""

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


@jit
def add_values(x: Floats, lanes: Doubles) -> None:
    """Add Σ x to the lanes."""
    for start in range(0, x.size, LANES):
        part = x[start : start + LANES]
        for j in range(part.size):
            lanes[j] += np.float64(part[j])


@jit
def add_squares(x: Floats, lanes: Doubles) -> None:
    """Add Σ x² to the lanes."""
    for start in range(0, x.size, LANES):
        part = x[start : start + LANES]
        for j in range(part.size):
            value = np.float64(part[j])
            lanes[j] += value * value


@jit
def add_products(x: Floats, y: Floats, lanes: Doubles) -> None:
    """Add Σ x·y to the lanes, each product exact; y is at least as long as x."""
    for start in range(0, x.size, LANES):
        left, right = x[start : start + LANES], y[start : start + LANES]
        for j in range(left.size):
            lanes[j] += np.float64(left[j]) * np.float64(right[j])


@jit
def raise_to_magnitudes(x: Floats, lanes: Floats) -> None:
    """Raise the lanes so that the largest of them is max |x| at least."""
    for start in range(0, x.size, LANES):
        part = x[start : start + LANES]
        for j in range(part.size):
            magnitude = abs(part[j])
            lanes[j] = magnitude if magnitude > lanes[j] else lanes[j]
