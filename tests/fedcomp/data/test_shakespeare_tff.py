from __future__ import annotations

import lzma
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcomp.data.errors import DataError, MalformedData, MissingData, TruncatedData
from fedcomp.data.shakespeare_characters import UNKNOWN, to_text
from fedcomp.data.shakespeare_tff import HDF5_READER, SQLITE_READER, read_hdf5, read_sqlite

ROLES: dict[str, Mapping[str, list[bytes]]] = {
    "train": {"LEAR_MACBETH": [b"Hark!", b"When?"], "ADO_EMILIA": [b"Never\xe2\x80\xa6"]},
    "test": {"LEAR_MACBETH": [b"My name's Macbeth."]},
}


def field(number: int, content: bytes) -> bytes:
    """Encode one field of a protocol buffer; contents of less than 128 bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


def example(snippet: bytes, name: bytes = b"snippets") -> bytes:
    feature = field(1, field(1, snippet))
    return field(1, field(1, field(1, name) + field(2, feature)))


def write_sqlite(file: Path, *, name: bytes = b"snippets") -> Path:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)")
        connection.execute("CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)")
        for split, roles in ROLES.items():
            for role, snippets in roles.items():
                connection.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (role, split, len(snippets)))
                for snippet in snippets:
                    connection.execute("INSERT INTO examples VALUES (?, ?, ?)", (split, role, example(snippet, name)))
        connection.commit()
    return file


def check(dataset: Any) -> None:
    roles = dict(zip(dataset.train.clients, np.diff(dataset.train.offsets).tolist(), strict=True))
    assert roles == {"LEAR_MACBETH": 2, "ADO_EMILIA": 1}
    assert dataset.test.clients == ("LEAR_MACBETH",)
    assert to_text(dataset.test.arrays["inputs"][0]) == "My name's Macbeth."
    first = dataset.train.offsets[dataset.train.clients.index("LEAR_MACBETH")]
    assert [to_text(row) for row in dataset.train.arrays["inputs"][first : first + 2]] == ["Hark!", "When?"]
    # The baseline's tokens are bytes: an ellipsis is three unknown ones.
    never = dataset.train.arrays["inputs"][dataset.train.offsets[dataset.train.clients.index("ADO_EMILIA")]]
    assert (never == UNKNOWN).sum() == 3
    assert "2 owners, 3 training and 1 test windows" in dataset.label


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("ask", ["folder", "file"])
def test_sqlite(tmp_path: Path, packed: bool, ask: str) -> None:
    folder, scratch = tmp_path / "data", tmp_path / "scratch"
    folder.mkdir()
    scratch.mkdir()
    file = write_sqlite(folder / "shakespeare.sqlite")
    if packed:
        content = lzma.compress(file.read_bytes())
        file.unlink()
        file = folder / "shakespeare.sqlite.lzma"
        file.write_bytes(content)
    source = folder if ask == "folder" else file
    assert SQLITE_READER.found_in(source)
    assert not HDF5_READER.found_in(source)
    dataset = SQLITE_READER.read(source, scratch)
    assert dataset.source == "tff-sqlite"
    check(dataset)


def test_examples_of_another_data_set_are_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedData, match="no 'snippets' but pixels"):
        read_sqlite(write_sqlite(tmp_path / "shakespeare.sqlite", name=b"pixels"), tmp_path)


def test_a_cut_file_is_named(tmp_path: Path) -> None:
    content = lzma.compress(write_sqlite(tmp_path / "whole").read_bytes())
    file = tmp_path / "shakespeare.sqlite.lzma"
    file.write_bytes(content[:-100])
    with pytest.raises(TruncatedData, match=r"shakespeare\.sqlite\.lzma ends too early"):
        read_sqlite(file, tmp_path)


def write_hdf5(folder: Path, split: str, roles: Mapping[str, Any]) -> Path:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    file = folder / f"shakespeare_{split}.h5"
    with h5py.File(file, "w") as out:
        for role, snippets in roles.items():
            out[f"examples/{role}/snippets"] = np.array(snippets)
    return file


@pytest.mark.parametrize("ask", ["folder", "file"])
def test_hdf5(tmp_path: Path, ask: str) -> None:
    files = [write_hdf5(tmp_path, split, roles) for split, roles in ROLES.items()]
    source = tmp_path if ask == "folder" else files[0]
    assert HDF5_READER.found_in(source)
    assert not SQLITE_READER.found_in(source)
    dataset = HDF5_READER.read(source, tmp_path)
    assert dataset.source == "tff-hdf5"
    check(dataset)


def test_the_other_hdf5_file_is_asked_for(tmp_path: Path) -> None:
    write_hdf5(tmp_path, "train", ROLES["train"])
    with pytest.raises(MissingData, match=r"shakespeare_test\.h5"):
        read_hdf5(tmp_path, tmp_path)


@pytest.mark.parametrize("snippets", [[1, 2], [1.5], 7])
def test_numbers_are_no_snippets(tmp_path: Path, snippets: Any) -> None:
    write_hdf5(tmp_path, "train", {"A": snippets})
    with pytest.raises(DataError, match=r"shakespeare_train\.h5, client 'A'.*not bytes"):
        read_hdf5(tmp_path, tmp_path)
