"""Reads the JSON files of LEAF: ``{"users": […], "num_samples": […], "user_data": {user: {"x": […], "y": […]}}}``.

Source: Caldas et al., LEAF: A Benchmark for Federated Settings, 2018, and its repository.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedcomp.data.compressed import reading
from fedcomp.data.errors import MalformedData, TruncatedData
from fedcomp.data.json_stream import JsonStream

EXPECTS = (
    "a folder of LEAF (https://github.com/TalwalkarLab/leaf) with train/*.json and test/*.json, or all_data/*.json"
)


@dataclass(frozen=True)
class LeafUser:
    """One user's samples: ``inputs`` as ``convert`` returned them, ``targets`` as in the file; equally many."""

    name: str
    inputs: list[Any]
    targets: list[Any]


@dataclass(frozen=True)
class LeafFiles:
    """The files of each split; ``test`` is empty where the source has one split only."""

    train: tuple[Path, ...]
    test: tuple[Path, ...]


def find_leaf_files(path: Path) -> LeafFiles | None:
    """Return LEAF's files in a folder (or its subfolder ``data``), or one file; None when there are none."""
    if path.is_file():
        return LeafFiles((path,), ()) if path.suffix == ".json" else None
    for folder in (path, path / "data"):
        train, test, everything, here = (
            tuple(sorted(part.glob("*.json")))
            for part in (folder / "train", folder / "test", folder / "all_data", folder)
        )
        if train:
            return LeafFiles(train, test)
        if everything or here:
            return LeafFiles(everything or here, ())
    return None


def read_users(path: Path, *, convert: Callable[[Any], Any]) -> Iterator[LeafUser]:
    """Yield the users of one file, one at a time.

    Parameters
    ----------
    path
        The file, which may be compressed.
    convert
        Maps one element of ``x`` to what is kept of it; it is called as each is read, so that no more than one user's
        converted samples are in memory.

    Raises
    ------
    MissingData, TruncatedData, DamagedData
        When the file is absent, ends too early or has a wrong checksum.
    MalformedData
        When it is not of LEAF's form, or ``x`` and ``y`` differ in length.
    """
    found: dict[str, int] = {}
    claimed: dict[str, list[Any]] = {"users": [], "num_samples": []}
    with reading(path) as binary, io.TextIOWrapper(binary, encoding="utf-8") as text:
        stream = JsonStream(text, path)
        seen = set()
        for key in stream.keys():  # noqa: SIM118 - not a dict
            seen.add(key)
            if key == "user_data":
                for name in stream.keys():  # noqa: SIM118 - not a dict
                    user = _read_user(stream, name, path, convert)
                    found[name] = len(user.inputs)
                    yield user
            elif key in claimed and isinstance(value := stream.value(), list):
                claimed[key] = value
            elif key not in claimed:
                stream.value()
        stream.end()
    if "user_data" not in seen:
        raise MalformedData(f"{path} has no user_data but {', '.join(sorted(seen)) or 'nothing'}; it is not LEAF's")
    for name, count in zip(claimed["users"], claimed["num_samples"], strict=False):
        if found.get(name) != count:
            raise TruncatedData(
                f"{path}: user {name!r} has {found.get(name, 0)} samples, num_samples says {count}; get it again"
            )


def _read_user(stream: JsonStream, name: str, path: Path, convert: Callable[[Any], Any]) -> LeafUser:
    inputs: list[Any] = []
    targets: list[Any] = []
    for key in stream.keys():  # noqa: SIM118 - not a dict
        if key == "x":
            inputs = [convert(stream.value()) for _ in stream.items()]
        elif key == "y":
            targets = [stream.value() for _ in stream.items()]
        else:
            stream.value()
    if len(inputs) != len(targets):
        raise MalformedData(f"{path}: user {name!r} has {len(inputs)} x and {len(targets)} y; get it again")
    return LeafUser(name, inputs, targets)
