from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from fedcomp.data.dataset import Dataset, Split, open_dataset, write_dataset
from fedcomp.data.errors import DamagedData, DataError, MalformedData, MissingData, TruncatedData


def split(*counts: int, seed: int = 1) -> Split:
    rng = np.random.default_rng(seed)
    n = sum(counts)
    arrays: dict[str, NDArray[np.uint8]] = {
        "inputs": rng.integers(0, 256, (n, 28, 28), dtype=np.uint8),
        "targets": rng.integers(0, 62, n, dtype=np.uint8),
    }
    return Split(arrays, tuple(f"w{i}" for i in range(len(counts))), np.cumsum([0, *counts]))


def dataset(seed: int = 1) -> Dataset:
    return Dataset("emnist", "some data", "idx", split(3, 0, 2, seed=seed), split(1, 1, 0, seed=seed + 1))


def test_what_is_written_is_opened_again(tmp_path: Path) -> None:
    made = dataset()
    for found in (write_dataset(tmp_path / "a", made), open_dataset(tmp_path / "a", "emnist", verify=True)):
        assert (found.kind, found.label, found.source) == ("emnist", "some data", "idx")
        for before, after in ((made.train, found.train), (made.test, found.test)):
            assert after.clients == before.clients
            assert np.array_equal(after.offsets, before.offsets)
            for name in ("inputs", "targets"):
                assert np.array_equal(after.arrays[name], before.arrays[name])
                assert isinstance(after.arrays[name], np.memmap)
                assert not after.arrays[name].flags.writeable


def test_splits_without_examples_or_owners_are_kept(tmp_path: Path) -> None:
    nobody = Split({"inputs": np.zeros((2, 1), np.uint8), "targets": np.zeros(2, np.uint8)}, (), np.empty(0, np.int64))
    found = write_dataset(tmp_path / "a", Dataset("emnist", "x", "idx", nobody, split(0)))
    assert found.train.clients == ()
    assert len(found.train) == 2
    assert len(found.test) == 0
    assert found.test.arrays["inputs"].shape == (0, 28, 28)


def test_digest_names_the_data_and_not_the_place(tmp_path: Path) -> None:
    first, again = (write_dataset(tmp_path / name, dataset()) for name in ("a", "b"))
    other = write_dataset(tmp_path / "c", dataset(seed=5))
    assert first.digest == again.digest != other.digest
    assert len(first.digest) == 32
    int(first.digest, 16)


def test_writing_replaces_and_leaves_nothing_else(tmp_path: Path) -> None:
    old = write_dataset(tmp_path / "a", dataset())
    kept = old.train.arrays["inputs"][:].tobytes()
    new = write_dataset(tmp_path / "a", dataset(seed=5))
    assert new.digest == open_dataset(tmp_path / "a", "emnist").digest != old.digest
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    # Who has the old one open goes on with it.
    assert old.train.arrays["inputs"].tobytes() == kept


def test_a_failure_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = write_dataset(tmp_path / "a", dataset())

    def full(*arguments: object, **options: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match="no space"):
        write_dataset(tmp_path / "a", dataset(seed=5))
    assert open_dataset(tmp_path / "a", "emnist", verify=True).digest == old.digest
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def change(path: Path, at: int = -1) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["train-inputs.npy", "train-targets.npy", "test-inputs.npy", "test-targets.npy"])
def test_every_file_is_checked(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "a"
    write_dataset(folder, dataset())
    change(folder / name)
    open_dataset(folder, "emnist")
    with pytest.raises(DamagedData, match=rf"{name} has BLAKE2b \w+, expected \w+; prepare it again"):
        open_dataset(folder, "emnist", verify=True)
    (folder / name).write_bytes((folder / name).read_bytes()[:-1])
    with pytest.raises(TruncatedData, match=rf"{name} has \d+ bytes, expected \d+"):
        open_dataset(folder, "emnist")
    (folder / name).unlink()
    with pytest.raises(MissingData, match=f"{name} is gone; prepare it again"):
        open_dataset(folder, "emnist")


def test_a_changed_header_is_an_error_of_ours(tmp_path: Path) -> None:
    write_dataset(tmp_path / "a", dataset())
    for at in (0, 12, 60):
        change(tmp_path / "a" / "train-inputs.npy", at)
        with pytest.raises(DataError):
            open_dataset(tmp_path / "a", "emnist", verify=True)
        change(tmp_path / "a" / "train-inputs.npy", at)


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ('"w1"', '"w9"', DamagedData, "was changed since"),
        ('"source"', '"sauce"', MalformedData, "manifest.json: "),
        ('"version": 1', '"version": 2', MalformedData, "manifest.json: version: "),
        ("{", "", MalformedData, "prepare it again"),
    ],
)
def test_a_changed_manifest_is_seen(tmp_path: Path, old: str, new: str, error: type[DataError], message: str) -> None:
    write_dataset(tmp_path / "a", dataset())
    path = tmp_path / "a" / "manifest.json"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(error, match=message):
        open_dataset(tmp_path / "a", "emnist")


def test_what_is_absent_or_of_another_kind(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match=r"no prepared data set 'a' in .*fedcomp data prepare emnist --from"):
        open_dataset(tmp_path / "a", "emnist")
    write_dataset(tmp_path / "a", dataset())
    with pytest.raises(MalformedData, match="'a' is of kind 'emnist', needed is 'shakespeare'"):
        open_dataset(tmp_path / "a", "shakespeare")


@pytest.mark.parametrize("offsets", [[0, 3], [0, 3, 2, 5], [1, 3, 4, 5], [0, 3, 4, 4], [0, 3, 4, 6], []])
def test_offsets_must_deal_everything_out(offsets: list[int]) -> None:
    arrays = dict(split(5).arrays)
    Split(arrays, ("a", "b", "c"), np.array([0, 3, 3, 5]))
    with pytest.raises(MalformedData, match="do not deal 5 examples to 3 clients"):
        Split(arrays, ("a", "b", "c"), np.array(offsets, dtype=np.int64))


def test_arrays_must_be_of_one_length() -> None:
    with pytest.raises(MalformedData, match="same length"):
        Split({**split(5).arrays, "targets": np.zeros(4)}, (), np.empty(0, np.int64))
    with pytest.raises(MalformedData, match="inputs and targets"):
        Split({"inputs": np.zeros(4)}, (), np.empty(0, np.int64))
