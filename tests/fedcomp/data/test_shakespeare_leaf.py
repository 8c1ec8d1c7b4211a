from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcomp.data.errors import MalformedData, MissingData
from fedcomp.data.shakespeare_characters import to_text, to_tokens
from fedcomp.data.shakespeare_leaf import READER, read_leaf

TEXT = "To be, or not to be, that is the question: whether 'tis nobler in the mind to suffer the slings and arrows"


def samples(count: int) -> dict[str, list[str]]:
    """Return windows that begin one character apart, as LEAF's do."""
    return {"x": [TEXT[k : k + 80] for k in range(count)], "y": [TEXT[k + 80] for k in range(count)]}


def write(file: Path, users: dict[str, dict[str, list[str]]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    counts = [len(data["x"]) for data in users.values()]
    content = {"users": list(users), "num_samples": counts, "hierarchies": ["p"], "user_data": users}
    file.write_text(json.dumps(content))


def test_both_splits_by_role(tmp_path: Path) -> None:
    write(tmp_path / "data" / "train" / "a.json", {"HAMLET_KING": samples(5), "LEAR_FOOL": samples(2)})
    write(tmp_path / "data" / "train" / "b.json", {"MACBETH": samples(1)})
    write(tmp_path / "data" / "test" / "a.json", {"HAMLET_KING": samples(1)})
    assert READER.found_in(tmp_path)
    dataset = READER.read(tmp_path, tmp_path)
    assert (dataset.kind, dataset.source) == ("shakespeare", "leaf")
    assert dataset.train.clients == ("HAMLET_KING", "LEAR_FOOL", "MACBETH")
    assert dataset.train.offsets.tolist() == [0, 5, 7, 8]
    assert dataset.test.clients == ("HAMLET_KING",)
    assert to_text(dataset.train.arrays["inputs"][1]) == TEXT[1:81]
    assert dataset.train.arrays["targets"][1].tolist() == to_tokens(TEXT[2:82]).tolist()
    assert "3 owners, 8 training and 1 test windows" in dataset.label


def test_one_split_is_divided(tmp_path: Path) -> None:
    write(tmp_path / "all_data" / "all.json", {"A": samples(14), "B": samples(3)})
    dataset = read_leaf(tmp_path, tmp_path)
    assert dataset.train.offsets.tolist() == [0, 12, 15]
    assert dataset.test.offsets.tolist() == [0, 2, 2]
    assert "held out" in dataset.label


@pytest.mark.parametrize(("key", "value", "message"), [("x", "short", "80 characters"), ("y", "ab", "one character")])
def test_a_wrong_window_is_told_with_its_file(tmp_path: Path, key: str, value: str, message: str) -> None:
    data = samples(2)
    data[key][1] = value
    write(tmp_path / "train" / "a.json", {"A": data})
    with pytest.raises(MalformedData, match=rf"a\.json: .*{value}.*{message}"):
        read_leaf(tmp_path, tmp_path)


def test_a_folder_without_files(tmp_path: Path) -> None:
    assert not READER.found_in(tmp_path)
    with pytest.raises(MissingData, match="no files of LEAF"):
        read_leaf(tmp_path, tmp_path)
