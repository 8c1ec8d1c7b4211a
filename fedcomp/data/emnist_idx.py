"""EMNIST ByClass from idx files, as NIST publishes them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fedcomp.data.characters import KIND, check_classes, counts
from fedcomp.data.collect import Collector
from fedcomp.data.dataset import Dataset, Split
from fedcomp.data.errors import MalformedData, MissingData, UnknownSource
from fedcomp.data.hold_out import hold_out
from fedcomp.data.idx import idx_blocks

EXPECTS = (
    "a folder with EMNIST's emnist-byclass-{train,test}-{images-idx3,labels-idx1}-ubyte, gzipped or not "
    "(https://www.nist.gov/itl/products-and-services/emnist-dataset), or one of the files of images"
)
_OFFICIAL = "emnist-byclass"
_FILE = re.compile(r"(?P<prefix>.+)-(?P<split>train|test)-(?P<what>images-idx3|labels-idx1)-ubyte(\.gz)?")
_OTHER_SETS = re.compile(r"letters|digits|balanced|bymerge|mnist$")


@dataclass(frozen=True)
class IdxPair:
    """The images and labels of one split."""

    images: Path
    labels: Path


def is_idx(path: Path) -> bool:
    """Tell whether a folder has, or a file is, one of EMNIST's files of images or labels."""
    return bool(_pairs_by_prefix(path))


def find_pairs(path: Path) -> tuple[str, dict[str, IdxPair]]:
    """Return the prefix of the files and the pair of each split that is there.

    ``emnist-byclass`` comes first; another prefix is taken when it is the only one, or when one of its files was given.

    Raises
    ------
    MissingData
        When the labels of some images, or the images of some labels, are not there.
    UnknownSource
        When there are several other prefixes.
    MalformedData
        When only a set with other classes is there.
    """
    found = _pairs_by_prefix(path)
    usable = {prefix: files for prefix, files in found.items() if not _OTHER_SETS.search(prefix)}
    if not usable:
        raise MalformedData(f"{path} holds {', '.join(found)}; the 62 classes are in the files {_OFFICIAL}-…")
    if len(usable) > 1 and _OFFICIAL not in usable:
        raise UnknownSource(f"{path} holds {', '.join(sorted(usable))}; give the file of images of the one you mean")
    prefix = _OFFICIAL if _OFFICIAL in usable else next(iter(usable))
    pairs = {}
    for split in ("train", "test"):
        files = {what: usable[prefix].get((split, what)) for what in ("images-idx3", "labels-idx1")}
        images, labels = files["images-idx3"], files["labels-idx1"]
        if images is not None and labels is not None:
            pairs[split] = IdxPair(images, labels)
        elif images is not None or labels is not None:
            other, absent = (labels, "images-idx3") if images is None else (images, "labels-idx1")
            folder = path if path.is_dir() else path.parent
            raise MissingData(
                f"{folder / f'{prefix}-{split}-{absent}-ubyte'} (or .gz) is not there, but {other} is; "
                "get both from https://www.nist.gov/itl/products-and-services/emnist-dataset"
            )
    return prefix, pairs


def read_emnist_idx(path: Path, scratch: Path) -> Dataset:
    """Read EMNIST ByClass; where only one split is there, :func:`hold_out` divides it.

    Raises
    ------
    DataError
        When a file is absent, ends too early, is damaged or not of this form; the message names it.
    """
    prefix, pairs = find_pairs(path)
    splits = {name: _read_split(pair, scratch, name) for name, pair in pairs.items()}
    what = "EMNIST ByClass" if prefix == _OFFICIAL else f"EMNIST characters of the files {prefix}"
    if len(splits) == 2:
        train, test = splits["train"], splits["test"]
        label = f"{what}: {counts(train, test)}, from idx files"
    else:
        ((name, whole),) = splits.items()
        train, test, rule = hold_out(whole, scratch)
        label = f"{what}, its {name} files only: {counts(train, test)}, from idx files; {rule}"
    return Dataset(KIND, label, "idx", train, test)


def _pairs_by_prefix(path: Path) -> dict[str, dict[tuple[str, str], Path]]:
    """Return the files by prefix, split and what they hold; of one file, those with the same prefix."""
    if path.is_file():
        match = _FILE.fullmatch(path.name)
        found = _pairs_by_prefix(path.parent) if match else {}
        return {match["prefix"]: found[match["prefix"]]} if match else {}
    found = {}
    for folder in (path, path / "gzip"):  # NIST's archive has a folder gzip
        for file in sorted(folder.glob("*-ubyte*")):
            if match := _FILE.fullmatch(file.name):
                found.setdefault(match["prefix"], {}).setdefault((match["split"], match["what"]), file)
        if found:
            break
    return found


def _read_split(pair: IdxPair, scratch: Path, name: str) -> Split:
    labels = np.concatenate([np.empty(0, dtype=np.uint8), *idx_blocks(pair.labels, row_shape=())])
    check_classes(labels, pair.labels)
    collector = Collector(scratch, name, inputs_shape=(28, 28))
    at = 0
    for block in idx_blocks(pair.images, row_shape=(28, 28)):
        if at + len(block) > len(labels):
            break
        # EMNIST stores columns where MNIST stores rows.
        collector.add(block.swapaxes(1, 2), labels[at : at + len(block)])
        at += len(block)
    else:
        if at == len(labels):
            return collector.finish()
    raise MalformedData(f"{pair.images} and {pair.labels} ({len(labels)}) hold different numbers of examples")
