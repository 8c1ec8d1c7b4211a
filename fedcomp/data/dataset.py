"""A data set as arrays, and the local cache that it is kept in: memory-mapped files and a manifest."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcomp.data.errors import DamagedData, MalformedData, MissingData, TruncatedData
from fedcomp.data.manifest import MANIFEST, FileEntry, Manifest, SplitEntry, file_digest, read_manifest

ARRAYS = ("inputs", "targets")
_SPLITS = ("train", "test")


@dataclass(frozen=True)
class Split:
    """Training or test examples, those of one natural owner beside each other.

    Attributes
    ----------
    arrays
        ``"inputs"`` and ``"targets"``, of as many rows; memory-mapped and read-only when opened from the cache.
    clients
        Names of the natural owners, such as writers or roles; empty when the source has none.
    offsets
        int64, shape (len(clients) + 1,): owner i has the rows from offsets[i] to offsets[i + 1] - 1, perhaps none.
        Shape (0,) without owners.

    Raises
    ------
    MalformedData
        When the arrays' lengths differ, or the offsets do not cover them in order.
    """

    arrays: Mapping[str, NDArray[Any]]
    clients: tuple[str, ...]
    offsets: NDArray[np.int64]

    def __post_init__(self) -> None:
        lengths = {name: len(self.arrays[name]) for name in ARRAYS if name in self.arrays}
        if set(self.arrays) != set(ARRAYS) or len(set(lengths.values())) != 1:
            raise MalformedData(f"arrays of lengths {lengths}; allowed: inputs and targets of the same length")
        shape = (len(self.clients) + 1,) if self.clients else (0,)
        ends = np.diff(self.offsets, prepend=0, append=len(self))
        if self.offsets.shape != shape or (self.clients and (self.offsets[0] != 0 or ends[-1] != 0 or ends.min() < 0)):
            raise MalformedData(
                f"offsets of shape {self.offsets.shape} do not deal {len(self)} examples to {len(self.clients)} clients"
            )

    def __len__(self) -> int:
        return len(self.arrays["inputs"])


@dataclass(frozen=True)
class Dataset:
    """Everything a task needs of one data set.

    Attributes
    ----------
    kind
        ``"emnist"`` or ``"shakespeare"``: what the arrays mean.
    label
        One plain line: which data this is, how many examples, from what form; printed with every result.
    source
        The form it was made from, such as ``"idx"`` or ``"leaf"``.
    train, test
        The two splits.
    digest
        32 hexadecimal digits over everything above but the label; empty until the data set was written.
    """

    kind: str
    label: str
    source: str
    train: Split
    test: Split
    digest: str = ""


def write_dataset(folder: Path, dataset: Dataset) -> Dataset:
    """Write a data set and return it opened from there; what was in ``folder`` before is replaced.

    The folder appears under its name when all is written, so that a reader sees the old or the new one, never a part.
    Memory: a few megabytes, when the arrays are memory-mapped.

    Raises
    ------
    OSError
        When the disk cannot be written; nothing is left behind then.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        files = {}
        for split_name, split in (("train", dataset.train), ("test", dataset.test)):
            for array_name, array in split.arrays.items():
                name = _file_name(split_name, array_name)
                np.save(temporary / name, array, allow_pickle=False)
                files[name] = FileEntry(size=(temporary / name).stat().st_size, digest=file_digest(temporary / name))
        manifest = Manifest(
            kind=dataset.kind,
            label=dataset.label,
            source=dataset.source,
            train=_entry(dataset.train),
            test=_entry(dataset.test),
            files=files,
        )
        (temporary / MANIFEST).write_text(manifest.signed().model_dump_json(indent=1), encoding="utf-8")
        _replace(folder, temporary)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return open_dataset(folder, dataset.kind)


def open_dataset(folder: Path, kind: str, *, verify: bool = False) -> Dataset:
    """Open a prepared data set; its arrays are memory-mapped and read-only.

    The sizes of all files and the manifest's own digest are always checked, every byte only with ``verify``.

    Raises
    ------
    MissingData
        When there is no such data set, or a file of it is gone.
    TruncatedData
        When a file is shorter or longer than it was written.
    DamagedData
        When a digest differs.
    MalformedData
        When the manifest cannot be read, or is of another kind.
    """
    manifest = read_manifest(folder, kind)
    for name, entry in manifest.files.items():
        path = folder / name
        if not path.is_file():
            raise MissingData(f"{path} is gone; {_again(folder, kind)}")
        size = path.stat().st_size
        if size != entry.size:
            raise TruncatedData(f"{path} has {size} bytes, expected {entry.size}; {_again(folder, kind)}")
        if verify and file_digest(path) != entry.digest:
            raise DamagedData(
                f"{path} has BLAKE2b {file_digest(path)}, expected {entry.digest}; {_again(folder, kind)}"
            )
    try:
        train, test = (_open_split(folder, name, entry) for name, entry in zip(_SPLITS, manifest.splits, strict=True))
    except (ValueError, EOFError) as error:
        raise DamagedData(f"{folder}: an array cannot be read ({error}); {_again(folder, kind)}") from error
    return Dataset(manifest.kind, manifest.label, manifest.source, train, test, manifest.digest)


def _file_name(split: str, array: str) -> str:
    return f"{split}-{array}.npy"


def _entry(split: Split) -> SplitEntry:
    return SplitEntry(clients=split.clients, offsets=tuple(split.offsets.tolist()))


def _open_split(folder: Path, name: str, entry: SplitEntry) -> Split:
    arrays = {array: np.load(folder / _file_name(name, array), mmap_mode="r", allow_pickle=False) for array in ARRAYS}
    return Split(arrays, entry.clients, np.array(entry.offsets, dtype=np.int64))


def _replace(folder: Path, temporary: Path) -> None:
    """Rename ``temporary`` to ``folder``; a folder of that name is first moved aside, then removed."""
    if not folder.exists():
        temporary.rename(folder)
        return
    aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-old-", dir=folder.parent))
    try:
        folder.rename(aside / folder.name)
        try:
            temporary.rename(folder)
        except OSError:
            (aside / folder.name).rename(folder)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _again(folder: Path, kind: str) -> str:
    return f"prepare it again: fedcomp data prepare {kind} --from … --name {folder.name} --force"
