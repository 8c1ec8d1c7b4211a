"""Reads the files of TensorFlow Federated: earlier HDF5, now SQLite compressed with LZMA.

HDF5 has the arrays ``examples/<client>/<feature>``. SQLite has the table ``examples(split_name, client_id,
serialized_example_proto)``, one ``tf.train.Example`` a row, and ``client_metadata(client_id, split_name,
num_examples)``. Source: tensorflow_federated/python/simulation/datasets, files hdf5_client_data and sql_client_data.
"""

from __future__ import annotations

import importlib
import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from fedcomp.data.compressed import reading
from fedcomp.data.errors import DamagedData, MalformedData, MissingData, MissingReader, TruncatedData
from fedcomp.data.tf_example import Feature, parse_example

_SQLITE = b"SQLite format 3\x00"


def hdf5_clients(path: Path, features: Sequence[str]) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
    """Yield (client, its arrays by feature) from an HDF5 file, in order of their names; memory: one client.

    Raises
    ------
    MissingReader
        When h5py is not installed.
    MissingData, TruncatedData, MalformedData
        When the file is absent, cut short, or not of this form.
    """
    try:
        h5py = importlib.import_module("h5py")
    except ImportError as error:
        raise MissingReader(f"{path} is HDF5, which needs h5py; run: pip install h5py") from error
    if not path.is_file():
        raise MissingData(f"{path} is not there; it belongs to the other files of its folder")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        if "truncated" in str(error):
            raise TruncatedData(f"{path} ends too early ({error}); get it again") from error
        raise MalformedData(f"{path} is not an HDF5 file ({error}); get it again") from error
    with file:
        if not isinstance(file.get("examples"), h5py.Group):
            raise MalformedData(f"{path} has no group 'examples' but {list(file)[:8]}; it is not TFF's")
        for client, group in file["examples"].items():
            try:
                yield client, {name: group[name][()] for name in features}
            except (KeyError, TypeError, AttributeError) as error:
                raise MalformedData(f"{path}: client {client!r} lacks one of {', '.join(features)}") from error
            except OSError as error:
                raise DamagedData(f"{path}: client {client!r} cannot be read ({error}); get the file again") from error


def unpacked(path: Path, scratch: Path) -> Path:
    """Return an SQLite file as it is, or unpacked into the folder ``scratch`` when it is compressed.

    Raises
    ------
    MissingData, TruncatedData, DamagedData
        When the file is absent, ends too early or has a wrong checksum.
    MalformedData
        When it is not SQLite.
    """
    target = path
    if not _is_sqlite(path):
        target = scratch / "unpacked.sqlite"
        with reading(path) as source, target.open("wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
        if not _is_sqlite(target):
            raise MalformedData(f"{path} is not an SQLite database, nor one compressed with LZMA; get it again")
    _check_length(target, path)
    return target


def sqlite_examples(database: Path, split: str) -> Iterator[tuple[str, dict[str, Feature]]]:
    """Yield (client, features) of each example of a split, those of one client in a row; memory: one example.

    Parameters
    ----------
    database
        As :func:`unpacked` returned it.
    split
        ``"train"`` or ``"test"``.

    Raises
    ------
    MalformedData
        When the tables are not those of TFF, or an example cannot be decoded.
    DamagedData
        When SQLite finds the file damaged.
    TruncatedData
        When there are fewer examples than the table of clients says.
    """
    count = 0
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            rows = connection.execute(
                "SELECT client_id, serialized_example_proto FROM examples WHERE split_name = ? "
                "ORDER BY client_id, rowid",
                (split,),
            )
            for client, message in rows:
                try:
                    yield str(client), parse_example(message)
                except MalformedData as error:
                    raise MalformedData(f"{database}: an example of client {client!r}: {error}") from error
                count += 1
            (claimed,) = connection.execute(
                "SELECT sum(num_examples) FROM client_metadata WHERE split_name = ?", (split,)
            ).fetchone()
    except sqlite3.OperationalError as error:
        raise MalformedData(f"{database}: {error}; TFF's tables are examples and client_metadata") from error
    except sqlite3.DatabaseError as error:
        raise DamagedData(f"{database}: {error}; get the file again") from error
    if count != (claimed or 0):
        raise TruncatedData(f"{database}: {count} {split} examples, client_metadata says {claimed}; get it again")


def single(features: Mapping[str, Feature], name: str, where: object = "an example") -> Feature:
    """Return a feature of an example; raises MalformedData, naming ``where``, when it is not there."""
    if name not in features:
        raise MalformedData(f"{where}: no {name!r} but {', '.join(features) or 'nothing'}")
    return features[name]


def _is_sqlite(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _check_length(database: Path, path: Path) -> None:
    """Compare a database's size with what its header says; SQLite itself notices only when it gets there."""
    with database.open("rb") as file:
        header = file.read(100)
    page = int.from_bytes(header[16:18], "big")
    size = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    if len(header) < 100 or database.stat().st_size < size:
        raise TruncatedData(f"{path}: the database has {database.stat().st_size} bytes, expected {size}; get it again")
