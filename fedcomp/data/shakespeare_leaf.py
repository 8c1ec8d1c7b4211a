"""LEAF's Shakespeare: JSON files with windows of 80 characters by role."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fedcomp.data import leaf
from fedcomp.data.collect import Collector
from fedcomp.data.dataset import Dataset, Split
from fedcomp.data.errors import DataError, MalformedData, MissingData
from fedcomp.data.hold_out import hold_out
from fedcomp.data.reader import Reader
from fedcomp.data.shakespeare_roles import KIND, label_of
from fedcomp.data.shakespeare_windows import window_tokens, with_following
from fedcomp.data.snippets import LENGTH


def read_leaf(path: Path, scratch: Path) -> Dataset:
    """Read LEAF's files; where there is only one split, some of each role's windows are held out.

    Raises
    ------
    DataError
        When there is no such file, or one cannot be read; names the file, and the role where a window is wrong.
    """
    files = leaf.find_leaf_files(path)
    if files is None:
        raise MissingData(f"{path} has no files of LEAF; expected {leaf.EXPECTS}")
    if files.test:
        train, test = _read(files.train, scratch, "train"), _read(files.test, scratch, "test")
        rule = "LEAF's own test split"
    else:
        train, test, rule = hold_out(_read(files.train, scratch, "all"), scratch)
    return Dataset(
        KIND, label_of("Shakespeare, windows of LEAF, roles as owners", train, test, rule), "leaf", train, test
    )


def _read(files: Iterable[Path], scratch: Path, name: str) -> Split:
    collector = Collector(scratch, name, inputs_shape=(LENGTH,), targets_shape=(LENGTH,))
    try:
        for file in files:
            _collect(file, collector)
    except DataError:
        collector.finish()  # closes its files
        raise
    return collector.finish()


def _collect(file: Path, collector: Collector) -> None:
    try:
        for user in leaf.read_users(file, convert=window_tokens):
            windows = with_following(user.inputs, user.targets)
            collector.add(windows.inputs, windows.targets, owner=user.name)
    except MalformedData as error:
        if str(file) in str(error):
            raise
        raise MalformedData(f"{file}: {error}") from error


READER = Reader(
    expects=leaf.EXPECTS,
    found_in=lambda path: leaf.find_leaf_files(path) is not None,
    read=read_leaf,
)
