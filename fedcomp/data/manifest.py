"""The manifest of a prepared data set: what it is, its files' sizes and digests, its owners."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from fedcomp.data.errors import DamagedData, MalformedData, MissingData

MANIFEST = "manifest.json"
_CHUNK = 1 << 20


class FileEntry(BaseModel):
    """One file: its size in bytes and the BLAKE2b digest of all of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    size: int
    digest: str


class SplitEntry(BaseModel):
    """The owners of a split and where their examples begin."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    clients: tuple[str, ...]
    offsets: tuple[int, ...]


class Manifest(BaseModel):
    """What ``manifest.json`` holds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1] = 1
    kind: str
    label: str
    source: str
    digest: str = ""
    files: dict[str, FileEntry]
    train: SplitEntry
    test: SplitEntry

    @property
    def splits(self) -> tuple[SplitEntry, SplitEntry]:
        """Training and test split."""
        return self.train, self.test

    def expected_digest(self) -> str:
        """Return the digest over kind, source, files and owners: the same data, the same digest."""
        text = self.model_dump_json(include={"version", "kind", "source", "files", "train", "test"})
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def signed(self) -> Manifest:
        """Return this manifest with its own digest in it."""
        return self.model_copy(update={"digest": self.expected_digest()})


def read_manifest(folder: Path, kind: str) -> Manifest:
    """Read a data set's manifest.

    Raises
    ------
    MissingData
        When there is none.
    MalformedData
        When it is not a manifest of this version, or the data are of another kind.
    DamagedData
        When it was changed since it was written.
    """
    manifest = _read(folder, kind)
    if manifest.kind != kind:
        raise MalformedData(
            f"{folder.name!r} is of kind {manifest.kind!r}, needed is {kind!r} (`fedcomp data list` shows kinds)"
        )
    return manifest


def kind_of(folder: Path) -> str:
    """Return the kind of a data set; raises what :func:`read_manifest` raises."""
    return _read(folder, "KIND").kind


def _read(folder: Path, kind: str) -> Manifest:
    path = folder / MANIFEST
    again = f"fedcomp data prepare {kind} --from … --name {folder.name}"
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError) as error:
        raise MissingData(
            f"no prepared data set {folder.name!r} in {folder.parent}; make it: {again} "
            "(`fedcomp data list` shows those that are there)"
        ) from error
    try:
        manifest = Manifest.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise MalformedData(f"{path}: {where}: {first['msg']}; prepare it again: {again} --force") from error
    if manifest.digest != manifest.expected_digest():
        raise DamagedData(f"{path} was changed since it was written; prepare it again: {again} --force")
    return manifest


def file_digest(path: Path) -> str:
    """Return the BLAKE2b digest of a file, 32 hexadecimal digits; memory: a megabyte."""
    digest = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
