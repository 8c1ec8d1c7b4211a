"""Gathers examples into files as they are read, so that memory holds only a few of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcomp.data.dataset import Split
from fedcomp.data.errors import MalformedData

_BLOCK = 4096  # rows moved at once


class Collector:
    """Takes examples in any order and returns them as a split, those of one owner beside each other.

    Owners come in the order in which each was first seen, an owner's examples in that in which they were added.

    Parameters
    ----------
    scratch
        Folder for two files of the examples; it must stay as long as the split is used.
    name
        What its files' names begin with.
    inputs_shape, targets_shape
        Shape of one example's input and of its target; all values are uint8.
    """

    def __init__(
        self, scratch: Path, name: str, *, inputs_shape: tuple[int, ...], targets_shape: tuple[int, ...] = ()
    ) -> None:
        self._paths = {key: scratch / f"{name}-{key}" for key in ("inputs", "targets")}
        self._shapes = {"inputs": inputs_shape, "targets": targets_shape}
        for path in self._paths.values():
            path.write_bytes(b"")
        self._owners: dict[str, int] = {}
        self._runs: list[tuple[int, int]] = []  # (owner, how many examples), in the order of the files
        self._count = 0

    def add(self, inputs: NDArray[np.uint8], targets: NDArray[np.uint8], *, owner: str | None = None) -> None:
        """Append examples: of one owner or, if no example has an owner, of nobody.

        Raises
        ------
        MalformedData
            When shapes or lengths do not fit.
        """
        for key, array in (("inputs", inputs), ("targets", targets)):
            if array.shape != (len(inputs), *self._shapes[key]) or array.dtype != np.uint8:
                wanted = (len(inputs), *self._shapes[key])
                raise MalformedData(f"{key} of {array.dtype} and shape {array.shape}; expected uint8 and {wanted}")
            # Opened for each: a reader that gives up leaves no file open.
            with self._paths[key].open("ab") as file:
                file.write(np.ascontiguousarray(array).data)
        self._count += len(inputs)
        if owner is not None:
            self._runs.append((self._owners.setdefault(owner, len(self._owners)), len(inputs)))

    def finish(self) -> Split:
        """Return what was added; its arrays are memory-mapped."""
        arrays = {key: mapped(path, self._count, self._shapes[key]) for key, path in self._paths.items()}
        if not self._owners:
            return Split(arrays, (), np.empty(0, dtype=np.int64))
        owners, counts = (np.array(column, dtype=np.int64) for column in zip(*self._runs, strict=True))
        totals = np.bincount(owners, weights=counts, minlength=len(self._owners)).astype(np.int64)
        offsets = np.concatenate([[0], np.cumsum(totals)])
        if (np.diff(owners) < 0).any():
            rows = np.argsort(np.repeat(owners, counts), kind="stable")
            arrays = {key: take_rows(array, rows, self._paths[key]) for key, array in arrays.items()}
        return Split(arrays, tuple(self._owners), offsets)


def take_rows(array: NDArray[np.uint8], rows: NDArray[np.int64], path: Path) -> NDArray[np.uint8]:
    """Copy rows of an array into a new file beside ``path``, some at a time, and return them memory-mapped."""
    target = path.with_name(path.name + "-rows")
    with target.open("wb") as file:
        for start in range(0, len(rows), _BLOCK):
            file.write(np.ascontiguousarray(array[rows[start : start + _BLOCK]]).data)
    return mapped(target, len(rows), array.shape[1:])


def mapped(path: Path, count: int, shape: Sequence[int]) -> NDArray[np.uint8]:
    """Return a file of uint8 as a read-only array of shape (count, *shape)."""
    if count == 0:  # nothing to map
        return np.empty((0, *shape), dtype=np.uint8)
    return np.memmap(path, dtype=np.uint8, mode="r", shape=(count, *shape))


def owned_rows(offsets: NDArray[np.int64]) -> list[range]:
    """Return the rows of each owner."""
    return [range(first, last) for first, last in pairwise(offsets.tolist())]
