from __future__ import annotations

import lzma
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fedcomp.data import emnist_readers, manifest
from fedcomp.data.dataset import Dataset, Split
from fedcomp.data.errors import DamagedData, DataError, MalformedData, MissingData, MissingReader, TruncatedData
from fedcomp.data.sources import detect, prepare
from tests.support.femnist_forms import Characters, characters, write_hdf5, write_idx, write_leaf, write_sqlite

TRAIN = characters({"f1": 5, "f2": 1, "f3": 2}, seed=1)
TEST = characters({"f1": 1, "f3": 2, "f4": 1}, seed=2)


def leaf_form(folder: Path) -> None:
    # LEAF deals users out to several files.
    write_leaf(folder / "train" / "part_0.json", {name: TRAIN[name] for name in ("f2", "f1")})
    write_leaf(folder / "train" / "part_1.json", {"f3": TRAIN["f3"]})
    write_leaf(folder / "test" / "part_0.json", TEST)


def hdf5_form(folder: Path) -> None:
    folder.mkdir()
    write_hdf5(folder / "fed_emnist_train.h5", TRAIN)
    write_hdf5(folder / "fed_emnist_test.h5", TEST)


def sqlite_form(folder: Path) -> None:
    folder.mkdir()
    write_sqlite(folder / "emnist_all.sqlite.lzma", TRAIN, TEST)


FORMS: dict[str, Callable[[Path], None]] = {"leaf": leaf_form, "tff-hdf5": hdf5_form, "tff-sqlite": sqlite_form}


def by_owner(split: Split) -> Characters:
    return {
        name: (split.arrays["inputs"][first:last], split.arrays["targets"][first:last])
        for name, first, last in zip(split.clients, split.offsets, split.offsets[1:], strict=False)
    }


def check_same(split: Split, made: Characters) -> None:
    found = by_owner(split)
    assert set(found) == set(made)
    for name, (images, labels) in made.items():
        assert np.array_equal(found[name][0], images), name
        assert np.array_equal(found[name][1], labels), name


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_femnist_gives_the_same_characters(tmp_path: Path, form: str) -> None:
    FORMS[form](tmp_path / "given")
    found = prepare("emnist", str(tmp_path / "given"), name="some")
    check_same(found.train, TRAIN)
    check_same(found.test, TEST)
    assert (found.kind, found.source) == ("emnist", form)
    assert "8 training and 4 test characters of 62 classes by 4 writers" in found.label
    assert "not centred: accuracies are not those of EMNIST idx files" in found.label
    assert "\n" not in found.label
    assert len(found.digest) == 32


def test_nothing_but_the_data_set_is_left(tmp_path: Path, fedcomp_home: Path) -> None:
    for form, make in FORMS.items():
        make(tmp_path / form)
        prepare("emnist", str(tmp_path / form), name=form)
    assert {path.name for path in (fedcomp_home / "data").iterdir()} == set(FORMS)


@pytest.mark.parametrize("place", ["all_data/all.json", "all.json", "data/all_data/a.json", "data/train/a.json"])
def test_leaf_with_one_split_holds_out_a_seventh_of_each_user(tmp_path: Path, place: str) -> None:
    made = characters({"a": 13, "b": 14, "c": 6})
    write_leaf(tmp_path / place, made)
    found = prepare("emnist", str(tmp_path), name="some")
    assert np.diff(found.train.offsets).tolist() == [12, 12, 6]
    assert np.diff(found.test.offsets).tolist() == [1, 2, 0]
    assert found.train.clients == found.test.clients == ("a", "b", "c")
    for name, (images, _) in made.items():
        train, test = by_owner(found.train)[name][0], by_owner(found.test)[name][0]
        assert np.array_equal(np.concatenate([train, test]), images)
    assert "the last seventh of each owner's examples is held out" in found.label


def test_a_user_in_two_files_is_one_owner(tmp_path: Path) -> None:
    made = characters({"a": 5, "b": 3})
    first = {name: (images[:2], labels[:2]) for name, (images, labels) in made.items()}
    rest = {name: (images[2:], labels[2:]) for name, (images, labels) in made.items()}
    write_leaf(tmp_path / "train" / "0.json", first)
    write_leaf(tmp_path / "train" / "1.json", rest)
    write_leaf(tmp_path / "test" / "0.json", TEST)
    check_same(prepare("emnist", str(tmp_path), name="some").train, made)


def idx_form(folder: Path, sizes: dict[str, int], prefix: str = "emnist-byclass") -> dict[str, Characters]:
    made = {split: characters({"": n}, seed=n) for split, n in sizes.items()}
    for split, found in made.items():
        write_idx(folder, prefix, split, *found[""])
    return made


def test_idx_files_of_both_splits(tmp_path: Path) -> None:
    made = idx_form(tmp_path, {"train": 9, "test": 4})
    found = prepare("emnist", str(tmp_path), name="some")
    for split, name in ((found.train, "train"), (found.test, "test")):
        assert np.array_equal(split.arrays["inputs"], made[name][""][0])
        assert np.array_equal(split.arrays["targets"], made[name][""][1])
        assert split.clients == ()
    assert found.label == "EMNIST ByClass: 9 training and 4 test characters of 62 classes, from idx files"


@pytest.mark.parametrize("split", ["train", "test"])
def test_idx_files_of_one_split_are_divided(tmp_path: Path, split: str) -> None:
    made = idx_form(tmp_path / "gzip", {split: 70})
    found = prepare("emnist", str(tmp_path), name="some")
    images = np.concatenate([found.train.arrays["inputs"], found.test.arrays["inputs"]])
    assert np.array_equal(images, made[split][""][0])
    assert len(found.test) == 10
    assert f"its {split} files only" in found.label
    assert "the last 10 are held out for testing" in found.label


def test_which_idx_files_are_taken(tmp_path: Path) -> None:
    idx_form(tmp_path, {"test": 7}, "sample")
    assert len(prepare("emnist", str(tmp_path), name="a").train) == 6
    idx_form(tmp_path, {"test": 14}, "other")
    with pytest.raises(DataError, match="holds other, sample; give the file of images"):
        prepare("emnist", str(tmp_path), name="b")
    assert len(prepare("emnist", str(tmp_path / "sample-test-images-idx3-ubyte.gz"), name="b").train) == 6
    idx_form(tmp_path, {"test": 21})
    assert len(prepare("emnist", str(tmp_path), name="c").train) == 18


def test_other_sets_of_emnist_are_refused(tmp_path: Path) -> None:
    idx_form(tmp_path, {"train": 9, "test": 4}, "emnist-letters")
    with pytest.raises(MalformedData, match=r"holds emnist-letters; the 62 classes are in the files emnist-byclass"):
        prepare("emnist", str(tmp_path), name="a")


def spoil(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


CASES: list[tuple[str, str, Callable[[bytes], bytes], type[DataError], str]] = [
    ("leaf", "train/part_0.json", lambda b: b[: len(b) // 2], TruncatedData, "part_0.json ends too early"),
    ("leaf", "train/part_0.json", lambda b: b.replace(b'"num_samples": [1', b'"num_samples": [2'), TruncatedData,
     "user 'f2' has 1 samples, num_samples says 2"),
    ("leaf", "test/part_0.json", lambda b: b.replace(b"[[1.0, ", b"[[1.5, ").replace(b"[[0", b"[[-0"), MalformedData,
     "not a number from 0 to 1"),
    ("leaf", "test/part_0.json", lambda b: b.replace(b"user_data", b"data"), MalformedData, "no user_data but data"),
    ("leaf", "test/part_0.json", lambda b: b.replace(b"[[", b'[["a", '), MalformedData, "not a list of numbers"),
    ("leaf", "test/part_0.json", lambda b: b.replace(b"[[", b"[[1, "), MalformedData, "shape (785,), expected 784"),
    ("leaf", "test/part_0.json", lambda b: b.replace(b'"y": [', b'"y": [1, '), MalformedData, "x and"),
    ("leaf", "test/part_0.json", lambda b: b.replace(b'"y": [', b'"y": [62], "z": [', 1), MalformedData, "0 to 61"),
    ("tff-hdf5", "fed_emnist_train.h5", lambda b: b[:-100], TruncatedData, "fed_emnist_train.h5 ends too early"),
    ("tff-hdf5", "fed_emnist_train.h5", lambda b: b"no" + b, MalformedData, "not an HDF5 file"),
    ("tff-hdf5", "fed_emnist_train.h5", lambda b: b.replace(b"pixels", b"pixexs"), MalformedData, "lacks one of"),
    ("tff-sqlite", "emnist_all.sqlite.lzma", lambda b: b[:-1], TruncatedData, "ends too early"),
    ("tff-sqlite", "emnist_all.sqlite.lzma", lambda b: b[:200] + bytes([b[200] ^ 1]) + b[201:], DamagedData,
     "is damaged"),
    ("tff-sqlite", "emnist_all.sqlite.lzma", lambda b: lzma.compress(lzma.decompress(b)[:-4096]), TruncatedData,
     "the database has"),
    ("tff-sqlite", "emnist_all.sqlite.lzma", lambda _: b"something", MalformedData, "not an SQLite database"),
    ("tff-sqlite", "emnist_all.sqlite.lzma",
     lambda b: lzma.compress(lzma.decompress(b).replace(b"examples", b"exemples")), DataError, "sqlite"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "name", "change", "error", "words"), CASES)
def test_a_file_that_is_not_whole_is_named(
    tmp_path: Path,
    fedcomp_home: Path,
    form: str,
    name: str,
    change: Callable[[bytes], bytes],
    error: type[DataError],
    words: str,
) -> None:
    folder = tmp_path / "given"
    FORMS[form](folder)
    before = (folder / name).read_bytes()
    spoil(folder / name, change)
    assert (folder / name).read_bytes() != before
    with pytest.raises(error) as caught:
        prepare("emnist", str(folder), name="some")
    assert words in str(caught.value)
    assert str(folder) in str(caught.value) or "unpacked.sqlite" in str(caught.value)
    assert list((fedcomp_home / "data").iterdir()) == []


def test_missing_partners_are_named(tmp_path: Path) -> None:
    hdf5_form(tmp_path / "a")
    (tmp_path / "a" / "fed_emnist_test.h5").unlink()
    with pytest.raises(MissingData, match=r"fed_emnist_test.h5 is not there"):
        prepare("emnist", str(tmp_path / "a"), name="some")
    idx_form(tmp_path / "b", {"train": 9, "test": 4})
    (tmp_path / "b" / "emnist-byclass-train-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(MissingData, match=r"train-labels-idx1-ubyte \(or .gz\) is not there, but .*images.*nist.gov"):
        prepare("emnist", str(tmp_path / "b"), name="some")


def test_images_and_labels_of_different_number(tmp_path: Path) -> None:
    for images, labels in ((9, 8), (8, 9)):
        write_idx(tmp_path, "a", "test", characters({"": images})[""][0], characters({"": labels})[""][1])
        with pytest.raises(MalformedData, match="different numbers of examples"):
            prepare("emnist", str(tmp_path), name="some")


def test_fewer_examples_than_the_database_says(tmp_path: Path) -> None:
    write_sqlite(tmp_path / "emnist_all.sqlite", TRAIN, TEST, claims=1)
    with pytest.raises(TruncatedData, match="8 train examples, client_metadata says 11"):
        prepare("emnist", str(tmp_path / "emnist_all.sqlite"), name="some")


def test_light_strokes_are_no_femnist(tmp_path: Path) -> None:
    inverted = {name: (255 - images, labels) for name, (images, labels) in TRAIN.items()}
    write_leaf(tmp_path / "all.json", {**inverted, "z": (255 - np.zeros((7, 28, 28), np.uint8), np.zeros(7, np.uint8))})
    with pytest.raises(MalformedData, match="expected dark strokes on a light background"):
        prepare("emnist", str(tmp_path), name="some")


def test_h5py_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdf5_form(tmp_path / "a")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(MissingReader, match="needs h5py; run: pip install h5py"):
        prepare("emnist", str(tmp_path / "a"), name="some")


def test_every_form_says_what_it_expects() -> None:
    for name, reader in emnist_readers.READERS.items():
        assert reader.expects, name
    assert detect("emnist", "hub") is emnist_readers.READERS["hub"]


def test_memory_stays_below_twice_the_arrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One user after the other from a single file of JSON, which as Python's floats would be 30 times the arrays.
    monkeypatch.setattr(manifest, "_CHUNK", 1 << 12)  # a megabyte would be all there is
    write_leaf(tmp_path / "all.json", characters({f"f{i}": 10 for i in range(30)}))
    peak = peak_of(lambda: prepare("emnist", str(tmp_path), name="some"))
    size = 30 * 10 * 785
    assert peak < 2 * size, (peak, size)


def peak_of(work: Callable[[], Dataset]) -> int:
    """Return the most that Python and numpy had allocated at once beyond what was there before."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
