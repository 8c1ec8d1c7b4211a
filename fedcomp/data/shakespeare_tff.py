"""TensorFlow Federated's Shakespeare: snippets by role, as HDF5 or as SQLite."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from fedcomp.data import tff
from fedcomp.data.dataset import Dataset
from fedcomp.data.errors import MalformedData
from fedcomp.data.reader import Reader
from fedcomp.data.shakespeare_roles import KIND, label_of, split_of_snippets

_HDF5 = {split: f"shakespeare_{split}.h5" for split in ("train", "test")}
_SQLITE = ("shakespeare.sqlite", "shakespeare.sqlite.lzma")
_FEATURE = "snippets"

Snippets = dict[str, list[str]]


def read_hdf5(path: Path, _: Path) -> Dataset:
    """Read both HDF5 files of a folder, or of the folder that the given one lies in.

    Raises
    ------
    DataError
        When one of them is absent or cannot be read, or h5py is not installed; names the file.
    """
    folder = path if path.is_dir() else path.parent
    train, test = (_hdf5_snippets(folder / name) for name in _HDF5.values())
    return _dataset(train, test, "tff-hdf5")


def read_sqlite(path: Path, scratch: Path) -> Dataset:
    """Read the SQLite file, compressed or not, of a folder or by its own name.

    Raises
    ------
    DataError
        When it is absent or cannot be read; names the file.
    """
    file = path if path.is_file() else next(path / name for name in _SQLITE if (path / name).is_file())
    database = tff.unpacked(file, scratch)
    train, test = (_sqlite_snippets(database, split) for split in ("train", "test"))
    return _dataset(train, test, "tff-sqlite")


def _hdf5_snippets(file: Path) -> Snippets:
    return {
        client: _texts(np.ravel(arrays[_FEATURE]).tolist(), f"{file}, client {client!r}")
        for client, arrays in tff.hdf5_clients(file, [_FEATURE])
    }


def _sqlite_snippets(database: Path, split: str) -> Snippets:
    found: Snippets = {}
    for client, features in tff.sqlite_examples(database, split):
        where = f"{database}, client {client!r}"
        found.setdefault(client, []).extend(_texts(tff.single(features, _FEATURE, where), where))
    return found


def _texts(values: Iterable[object], where: str) -> list[str]:
    """Return snippets as texts of one character a byte, since the baseline's tokens are bytes."""
    snippets = list(values)
    if not all(isinstance(value, bytes) for value in snippets):
        raise MalformedData(f"{where}: {_FEATURE} are not bytes; it is not TFF's Shakespeare")
    return [value.decode("latin-1") for value in snippets if isinstance(value, bytes)]


def _dataset(train_snippets: Snippets, test_snippets: Snippets, source: str) -> Dataset:
    train, test = (split_of_snippets(list(part), part.values()) for part in (train_snippets, test_snippets))
    what = "Shakespeare, snippets of TensorFlow Federated, roles as owners"
    return Dataset(KIND, label_of(what, train, test, "TFF's own test split"), source, train, test)


HDF5_READER = Reader(
    expects=f"{' and '.join(_HDF5.values())} of TensorFlow Federated",
    found_in=lambda path: path.name in _HDF5.values() if path.is_file() else _any_in(path, _HDF5.values()),
    read=read_hdf5,
)

SQLITE_READER = Reader(
    expects="shakespeare.sqlite.lzma of TensorFlow Federated",
    found_in=lambda path: path.name in _SQLITE if path.is_file() else _any_in(path, _SQLITE),
    read=read_sqlite,
)


def _any_in(folder: Path, names: Iterable[str]) -> bool:
    return any((folder / name).is_file() for name in names)
