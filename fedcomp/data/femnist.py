"""FEMNIST in each of its forms: characters by writer, dark on light and not centred."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedcomp.data.characters import (
    IMAGE_SHAPE,
    KIND,
    NOT_CENTRED,
    check_classes,
    check_polarity,
    counts,
    ink_of,
)
from fedcomp.data.collect import Collector
from fedcomp.data.dataset import Dataset, Split
from fedcomp.data.errors import MalformedData, UnknownSource
from fedcomp.data.hold_out import hold_out
from fedcomp.data.hub import hub_batches
from fedcomp.data.leaf import find_leaf_files, read_users
from fedcomp.data.tf_example import Feature
from fedcomp.data.tff import hdf5_clients, single, sqlite_examples, unpacked

HDF5_FILES = {"train": "fed_emnist_train.h5", "test": "fed_emnist_test.h5"}
SQLITE_FILES = ("emnist_all.sqlite.lzma", "emnist_all.sqlite")
HUB_NAME = "flwrlabs/femnist"
_SPLITS = ("train", "test")


def read_leaf(path: Path, scratch: Path) -> Dataset:
    """Read LEAF's JSON; from ``all_data`` or one file alone the last seventh of each writer's is held out."""
    files = find_leaf_files(path)
    if files is None:
        raise UnknownSource(f"{path} has no *.json of LEAF")
    splits = [_leaf_split(paths, scratch, name) for name, paths in zip(_SPLITS, (files.train, files.test), strict=True)]
    if files.test:
        return _dataset("leaf", "LEAF's JSON", splits[0], splits[1], path)
    return _held_out("leaf", "LEAF's JSON", splits[0], scratch, path)


def read_hdf5(path: Path, scratch: Path) -> Dataset:
    """Read TFF's ``fed_emnist_train.h5`` and ``fed_emnist_test.h5``, both of one folder."""
    folder = path if path.is_dir() else path.parent
    splits = []
    for split, name in HDF5_FILES.items():
        collector = _collector(scratch, split)
        file = folder / name
        for client, arrays in hdf5_clients(file, ("pixels", "label")):
            where = f"{file}, client {client!r}"
            collector.add(ink_of(arrays["pixels"], where), check_classes(arrays["label"].ravel(), where), owner=client)
        splits.append(collector.finish())
    return _dataset("tff-hdf5", "TensorFlow Federated's HDF5", splits[0], splits[1], path)


def read_sqlite(path: Path, scratch: Path) -> Dataset:
    """Read TFF's ``emnist_all.sqlite.lzma``, or the file unpacked; unpacking takes 3 to 4 GB of disk meanwhile."""
    file = path if path.is_file() else next(path / name for name in SQLITE_FILES if (path / name).is_file())
    database = unpacked(file, scratch)
    splits = []
    for split in _SPLITS:
        collector = _collector(scratch, split)
        for client, examples in groupby(sqlite_examples(database, split), key=lambda item: item[0]):
            found = [_from_example(features, f"{file}, client {client!r}") for _, features in examples]
            collector.add(
                np.concatenate([ink for ink, _ in found]), np.concatenate([c for _, c in found]), owner=client
            )
        splits.append(collector.finish())
    return _dataset("tff-sqlite", "TensorFlow Federated's SQLite", splits[0], splits[1], path)


def read_hub(_path: Path, scratch: Path) -> Dataset:
    """Read ``flwrlabs/femnist`` from Hugging Face; the last seventh of each writer's is held out."""
    return _held_out("hub", f"Hugging Face's {HUB_NAME}", hub_split(HUB_NAME, scratch), scratch, HUB_NAME)


def hub_split(name: str, scratch: Path, **options: Any) -> Split:
    """Return all rows of a data set with the columns of ``flwrlabs/femnist``, those of one writer beside each other.

    ``options`` are passed to :func:`fedcomp.data.hub.hub_batches`, whose errors this raises.
    """
    collector = _collector(scratch, "all")
    for batch in hub_batches(name, ("image", "writer_id", "character"), **options):
        images = np.stack([_grey(image, name) for image in batch["image"]])
        classes = check_classes(np.asarray(batch["character"]), name)
        start = 0
        for writer, rows in groupby(batch["writer_id"]):
            end = start + len(list(rows))
            collector.add(images[start:end], classes[start:end], owner=str(writer))
            start = end
    return collector.finish()


def is_hdf5(path: Path) -> bool:
    """Tell by names whether TFF's HDF5 files are there, or this is one of them."""
    return path.name in HDF5_FILES.values() or any((path / name).is_file() for name in HDF5_FILES.values())


def is_sqlite(path: Path) -> bool:
    """Tell by names whether TFF's SQLite file is there, or this is it."""
    return path.name in SQLITE_FILES or any((path / name).is_file() for name in SQLITE_FILES)


def _leaf_split(paths: tuple[Path, ...], scratch: Path, name: str) -> Split:
    collector = _collector(scratch, name)
    for path in paths:
        for user in read_users(path, convert=partial(ink_of, where=path)):
            where = f"{path}, user {user.name!r}"
            images = np.concatenate([np.empty((0, *IMAGE_SHAPE), dtype=np.uint8), *user.inputs])
            if len(images) != len(user.targets):
                raise MalformedData(f"{where}: an x is more than one image")
            collector.add(images, check_classes(np.asarray(user.targets), where), owner=user.name)
    return collector.finish()


def _from_example(features: Mapping[str, Feature], where: str) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    pixels, label = (np.asarray(single(features, name, where)) for name in ("pixels", "label"))
    if pixels.shape != (784,) or label.shape != (1,):
        raise MalformedData(f"{where}: pixels of shape {pixels.shape}, label of {label.shape}; expected (784,), (1,)")
    return ink_of(pixels, where), check_classes(label, where)


def _grey(image: Any, where: str) -> NDArray[np.uint8]:
    values = np.asarray(image.convert("L"))
    if values.shape != IMAGE_SHAPE:
        raise MalformedData(f"{where}: an image of shape {values.shape}, expected {IMAGE_SHAPE}")
    return 255 - values


def _collector(scratch: Path, name: str) -> Collector:
    return Collector(scratch, name, inputs_shape=IMAGE_SHAPE)


def _held_out(source: str, form: str, whole: Split, scratch: Path, where: object) -> Dataset:
    train, test, rule = hold_out(whole, scratch)
    return _dataset(source, form, train, test, where, f"; {rule}")


def _dataset(source: str, form: str, train: Split, test: Split, where: object, rule: str = "") -> Dataset:
    for name, split in (("training", train), ("test", test)):
        if not len(split):
            raise MalformedData(f"{where} has no {name} examples")
    check_polarity(train, where)
    return Dataset(KIND, f"FEMNIST: {counts(train, test)}, from {form}{rule}; {NOT_CENTRED}", source, train, test)
