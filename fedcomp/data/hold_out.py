"""Makes a test set where the source has only one split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedcomp.data.collect import owned_rows, take_rows
from fedcomp.data.dataset import Split
from fedcomp.data.errors import MalformedData

_PARTS = 7


def training_size(examples: int) -> int:
    """Return how many of one split's examples are for training: six sevenths, rounded to two significant digits.

    Of the 116,323 images of EMNIST's test files that is 100,000, which leaves 16,323. From four examples on, at least
    one is left.
    """
    share = round(examples * (_PARTS - 1) / _PARTS)
    unit = 10 ** max(len(str(share)) - 2, 0)
    return int(round(share / unit) * unit)


def hold_out(split: Split, scratch: Path) -> tuple[Split, Split, str]:
    """Divide one split into training and test examples.

    With owners the last seventh of each owner's examples, rounded down, is the test set, so that both splits have the
    same owners. Without, the first :func:`training_size` examples are for training.

    Parameters
    ----------
    split
        All examples.
    scratch
        Folder for intermediate files; it must stay as long as the splits are used.

    Returns
    -------
    Training split, test split, and the rule in words for the data set's label.

    Raises
    ------
    MalformedData
        When there are too few examples for a test set.
    """
    if split.clients:
        owners = owned_rows(split.offsets)
        kept = [rows[: len(rows) - len(rows) // _PARTS] for rows in owners]
        held = [rows[len(rows) - len(rows) // _PARTS :] for rows in owners]
        train, test = _select(split, kept, scratch, "kept"), _select(split, held, scratch, "held")
        rule = "the last seventh of each owner's examples is held out for testing"
    else:
        size = training_size(len(split))
        nobody = np.empty(0, dtype=np.int64)
        train, test = (
            Split({key: array[part] for key, array in split.arrays.items()}, (), nobody)
            for part in (slice(0, size), slice(size, None))
        )
        rule = f"the last {len(test):,} are held out for testing"
    if not len(test):
        raise MalformedData(f"{len(split)} examples are too few to hold some out for testing")
    return train, test, rule


def _select(split: Split, rows: list[range], scratch: Path, name: str) -> Split:
    chosen: NDArray[np.int64] = np.concatenate([np.arange(part.start, part.stop) for part in rows]).astype(np.int64)
    arrays = {key: take_rows(array, chosen, scratch / f"{name}-{key}") for key, array in split.arrays.items()}
    return Split(arrays, split.clients, np.cumsum([0, *(len(part) for part in rows)], dtype=np.int64))
