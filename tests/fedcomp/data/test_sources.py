from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.data.checksums import check_listed_files
from fedcomp.data.collect import Collector
from fedcomp.data.dataset import Split
from fedcomp.data.errors import DamagedData, DataExists, MalformedData, MissingData, UnknownSource
from fedcomp.data.hold_out import hold_out, training_size
from fedcomp.data.names import data_folder, prepared_names
from fedcomp.data.sources import detect, prepare, readers
from fedcomp.errors import ConfigError
from tests.support.femnist_forms import characters, write_hdf5, write_idx, write_leaf


def test_a_folder_without_data_says_what_could_be_there(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UnknownSource, match=r"holds: notes.txt\) has no emnist data.*idx: .*leaf: .*hub: "):
        detect("emnist", str(tmp_path))
    with pytest.raises(UnknownSource, match="holds: one file"):
        detect("emnist", str(tmp_path / "notes.txt"))
    with pytest.raises(MissingData, match=r"nothing does not exist; give a folder or file of emnist data, or 'hub'"):
        detect("emnist", str(tmp_path / "nothing"))
    with pytest.raises(ConfigError, match="unknown kind of data 'mnist'; allowed: emnist, shakespeare"):
        readers("mnist")


def test_a_folder_with_two_forms_is_not_guessed_at(tmp_path: Path) -> None:
    made = characters({"a": 7})
    write_leaf(tmp_path / "all.json", made)
    write_hdf5(tmp_path / "fed_emnist_train.h5", made)
    with pytest.raises(UnknownSource, match=r"in 2 forms \(leaf, tff-hdf5\); give one file of it"):
        prepare("emnist", str(tmp_path), name="some")
    assert prepare("emnist", str(tmp_path / "all.json"), name="some").source == "leaf"


def test_a_data_set_is_replaced_on_request_only(tmp_path: Path) -> None:
    write_leaf(tmp_path / "all.json", characters({"a": 7}))
    first = prepare("emnist", str(tmp_path), name="some")
    write_leaf(tmp_path / "all.json", characters({"a": 8}))
    with pytest.raises(DataExists, match=r"there is a data set 'some' in .*--force or give --name"):
        prepare("emnist", str(tmp_path), name="some")
    assert prepare("emnist", str(tmp_path), name="some", replace=True).digest != first.digest
    assert prepared_names() == ["some"]


@pytest.mark.parametrize("name", ["", "A", "a b", "../a", "a/b", "1a", ".a", "synthetic", "inf", "a" * 65, 7, True])
def test_names_that_are_refused(name: object) -> None:
    with pytest.raises(ConfigError, match="cannot be a data set's name"):
        data_folder(name)


def sums(folder: Path, **files: bytes) -> None:
    lines = []
    for name, content in files.items():
        (folder / name).write_bytes(content)
        lines.append(f"{hashlib.sha256(content).hexdigest()}  {name}\n")
    (folder / "SHA256SUMS").write_text("".join(lines))


def test_listed_files_are_checked(tmp_path: Path) -> None:
    assert check_listed_files(tmp_path) == 0
    sums(tmp_path, a=b"1", b=b"2")
    assert check_listed_files(tmp_path) == 2
    assert check_listed_files(tmp_path / "a") == 1
    (tmp_path / "b").write_bytes(b"3")
    assert check_listed_files(tmp_path / "a") == 1
    with pytest.raises(DamagedData, match=r"/b has SHA-256 4e07\w+, expected d473\w+ .*get the file again"):
        check_listed_files(tmp_path)
    (tmp_path / "b").unlink()
    with pytest.raises(MissingData, match=r"/b is not there, but .*SHA256SUMS lists it"):
        check_listed_files(tmp_path)
    (tmp_path / "SHA256SUMS").write_text("something else\n")
    with pytest.raises(MalformedData, match="SHA256SUMS, line 1: 'something else'"):
        check_listed_files(tmp_path)


def test_a_wrong_checksum_stops_preparing(tmp_path: Path) -> None:
    write_idx(tmp_path, "emnist-byclass", "test", *characters({"": 9})[""])
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  emnist-byclass-test-images-idx3-ubyte.gz\n")
    with pytest.raises(DamagedData, match=r"images-idx3-ubyte.gz has SHA-256 .* expected 0000"):
        prepare("emnist", str(tmp_path), name="some")
    assert prepared_names() == []


def test_the_held_out_share() -> None:
    assert training_size(116_323) == 100_000
    assert [training_size(n) for n in (4, 7, 70, 2000, 814_255)] == [3, 6, 60, 1700, 700_000]


@given(st.integers(4, 10**7))
def test_about_a_seventh_is_held_out(n: int) -> None:
    assert n - training_size(n) > 0
    assert abs(training_size(n) - 6 * n / 7) <= 0.05 * n + 0.5


def test_too_few_to_hold_some_out(tmp_path: Path) -> None:
    one = {"inputs": np.zeros((1, 28, 28), np.uint8), "targets": np.zeros(1, np.uint8)}
    for split in (Split(one, (), np.empty(0, np.int64)), Split(one, ("a",), np.array([0, 1]))):
        with pytest.raises(MalformedData, match="1 examples are too few"):
            hold_out(split, tmp_path)


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 4)), min_size=1, max_size=12))
def test_examples_in_any_order_are_grouped_by_owner(
    tmp_path_factory: pytest.TempPathFactory, runs: list[tuple[str, int]]
) -> None:
    collector = Collector(tmp_path_factory.mktemp("scratch"), "x", inputs_shape=(2,))
    expected: dict[str, list[int]] = {}
    count = 0
    for owner, n in runs:
        numbers = np.arange(count, count + n, dtype=np.uint8)
        collector.add(np.stack([numbers, numbers], axis=1), numbers, owner=owner)
        expected.setdefault(owner, []).extend(numbers.tolist())
        count += n
    split = collector.finish()
    assert split.clients == tuple(expected)
    for owner, first, last in zip(split.clients, split.offsets, split.offsets[1:], strict=False):
        assert split.arrays["targets"][first:last].tolist() == expected[owner]
        assert split.arrays["inputs"][first:last, 1].tolist() == expected[owner]


def test_a_collector_takes_what_it_was_made_for(tmp_path: Path) -> None:
    collector = Collector(tmp_path, "x", inputs_shape=(2,))
    for inputs, targets in (
        (np.zeros((3, 3), np.uint8), np.zeros(3, np.uint8)),
        (np.zeros((3, 2), np.uint8), np.zeros(2, np.uint8)),
        (np.zeros((3, 2), np.uint8), np.zeros(3, np.int64)),
    ):
        with pytest.raises(MalformedData, match="expected uint8"):
            collector.add(inputs, targets)  # type: ignore[arg-type]
