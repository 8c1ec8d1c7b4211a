"""Where a tensor's energy is: a label a unit of consecutive coordinates, or one a row and one a column.

A label is an energy in steps of 3 dB. The class of a coordinate is its unit's label, or the sum of its row's and its
column's: the gradient of a dense layer is a sum of outer products, so that its energy at (i, j) is about that of output
i times that of input j. Labels are integers, so every machine finds the same classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ZERO = -(2**14)
"""The label of what has no energy at all; a class below ``ZERO / 2`` has it in it."""

MAX_LABEL = 2**12
UNITS = (32, 64, 128, 256, 512, 1024, 4096)
_REFINEMENTS = 2
_LARGE, _UNITS_OF_MATRICES = 64, 512

Labels = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class TensorEnergy:
    """Squares of a tensor's coordinates, float64, shape (n,), and sums of them."""

    squares: Tensor

    @cached_property
    def total(self) -> float:
        """The sum of all squares."""
        return float(self.squares.sum())

    @cached_property
    def _fine(self) -> Tensor:
        return _sums(self.squares, UNITS[0])

    def units(self, unit: int) -> Tensor:
        """Return the sum of each ``unit`` consecutive squares, the last of those that are left."""
        whole, rest = divmod(unit, UNITS[0])
        return _sums(self.squares, unit) if rest or unit >= self.squares.numel() else _sums(self._fine, whole)


@dataclass(frozen=True, eq=False)
class UnitModel:
    """One label for each ``unit`` consecutive coordinates, the last unit may be shorter."""

    size: int
    unit: int
    labels: Labels

    def classes(self, device: torch.device) -> Tensor:
        """Return each coordinate's class, int16, shape (size,)."""
        labels = torch.from_numpy(self.labels.astype(np.int16)).to(device)
        return labels.repeat_interleave(self.unit)[: self.size]

    def counts(self) -> tuple[Labels, Labels]:
        """Return (classes, how many coordinates each has)."""
        sizes = np.full(len(self.labels), self.unit, dtype=np.int64)
        if len(sizes):
            sizes[-1] = self.size - self.unit * (len(sizes) - 1)
        values, counts = _sums_by_class(self.labels, sizes)
        return values, counts.astype(np.int64)

    def class_energies(self, energy: TensorEnergy) -> Floats:
        """Return the energy of each class of ``counts``."""
        return _sums_by_class(self.labels, energy.units(self.unit).cpu().numpy())[1]


@dataclass(frozen=True, eq=False)
class OuterModel:
    """One label a row and one a column of a matrix."""

    rows: Labels
    columns: Labels

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.rows) * len(self.columns)

    @property
    def labels(self) -> Labels:
        """All labels, rows first."""
        return np.concatenate([self.rows, self.columns])

    def classes(self, device: torch.device) -> Tensor:
        """Return each coordinate's class, int16, shape (size,)."""
        rows, columns = (torch.from_numpy(part.astype(np.int16)).to(device) for part in (self.rows, self.columns))
        return _with_zero(rows[:, None] + columns[None, :]).reshape(-1)

    def counts(self) -> tuple[Labels, Labels]:
        """Return (classes, how many coordinates each has)."""
        row_values, row_counts = np.unique(self.rows, return_counts=True)
        column_values, column_counts = np.unique(self.columns, return_counts=True)
        values, counts = _sums_by_class(_cross(row_values, column_values), np.outer(row_counts, column_counts).ravel())
        return values, counts.astype(np.int64)

    def class_energies(self, energy: TensorEnergy) -> Floats:
        """Return the energy of each class of ``counts``."""
        row_values, row_places = np.unique(self.rows, return_inverse=True)
        column_values, column_places = np.unique(self.columns, return_inverse=True)
        matrix = energy.squares.view(len(self.rows), len(self.columns))
        by_row = matrix.new_zeros(len(row_values), len(self.columns))
        by_row.index_add_(0, torch.from_numpy(row_places).to(matrix.device), matrix)
        by_both = by_row.new_zeros(len(row_values), len(column_values))
        by_both.index_add_(1, torch.from_numpy(column_places).to(matrix.device), by_row)
        return _sums_by_class(_cross(row_values, column_values), by_both.cpu().numpy().ravel())[1]


Model = UnitModel | OuterModel


def candidates(energy: TensorEnergy, shape: tuple[int, ...]) -> Iterator[Model]:
    """Yield the models of one tensor of this shape that are worth comparing, the simplest first."""
    size = energy.squares.numel()
    sides = [(prod(shape[:axis]), prod(shape[axis:])) for axis in range(1, len(shape))]
    # Of a large matrix rows and columns say more than many short units, which would cost most of the time.
    shortest = _UNITS_OF_MATRICES if max((min(pair) for pair in sides), default=0) >= _LARGE else 0
    yield _units(energy, max(size, 1))
    for unit in UNITS:
        if shortest <= unit <= size // 2:
            yield _units(energy, unit)
    for rows, columns in sides:
        if min(rows, columns) > 1:
            yield _outer(energy.squares.view(rows, columns))


def _units(energy: TensorEnergy, unit: int) -> UnitModel:
    size, sums = energy.squares.numel(), energy.units(unit)
    lengths = torch.full_like(sums, unit)
    if len(lengths):
        lengths[-1] = size - unit * (len(lengths) - 1)
    return UnitModel(size, unit, _to_labels(sums / lengths))


def _sums(values: Tensor, unit: int) -> Tensor:
    whole = values.numel() // unit * unit
    sums = values[:whole].view(-1, unit).sum(dim=1)
    return sums if whole == values.numel() else torch.cat([sums, values[whole:].sum().view(1)])


def _outer(energy: Tensor) -> OuterModel:
    """Fit energies a·b by maximum likelihood of normal numbers, one side after the other."""
    rows, columns = energy.mean(dim=1), energy.mean(dim=0)
    for _ in range(_REFINEMENTS):
        rows = _weighted_mean(energy, columns)
        columns = _weighted_mean(energy.T, rows)
    return OuterModel(_to_labels(rows), _to_labels(columns))


def _weighted_mean(energy: Tensor, other: Tensor) -> Tensor:
    """Return the mean over columns with energy of energy/other."""
    weights = torch.where(other > 0, 1 / torch.where(other > 0, other, 1.0), 0.0)
    return energy @ weights / max(1, int((other > 0).sum()))


def _to_labels(energies: Tensor) -> Labels:
    values = energies.cpu().numpy()
    there = values > 0
    labels = np.full(len(values), ZERO, dtype=np.int64)
    labels[there] = np.clip(np.round(np.log2(values[there])), -MAX_LABEL, MAX_LABEL).astype(np.int64)
    return labels


def _cross(rows: Labels, columns: Labels) -> Labels:
    sums = (rows[:, None] + columns[None, :]).ravel()
    return np.where(sums < ZERO // 2, ZERO, sums)


def _sums_by_class(classes: Labels, weights: NDArray[np.number]) -> tuple[Labels, Floats]:
    """Return the classes that occur, increasing, and the sum of the weights in each."""
    if not len(classes):
        return classes, np.zeros(0)
    lowest = int(classes.min())
    values = np.flatnonzero(np.bincount(classes - lowest)).astype(np.int64)
    return values + lowest, np.bincount(classes - lowest, weights=weights)[values].astype(np.float64)


def _with_zero(classes: Tensor) -> Tensor:
    return torch.where(classes < ZERO // 2, torch.full_like(classes, ZERO), classes)


def bits_needed(counts: Labels, energies: NDArray[np.float64], water: float) -> float:
    """Return what coordinates of these classes cost at distortion ``water`` each, in bits.

    Reverse water-filling: a class above the water gets ½·log2(e/water) bits; what one below it loses less than the
    water is worth 1/(2·ln 2·water) bits.
    """
    there = counts > 0
    level = energies[there] / counts[there] / water
    cost = 0.5 * np.log2(np.maximum(level, 1)) + np.minimum(level, 1) / (2 * math.log(2))
    return float((counts[there] * cost).sum())
