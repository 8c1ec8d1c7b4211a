from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.data.errors import DamagedData, DataError, MalformedData, TruncatedData
from fedcomp.data.shakespeare_characters import UNKNOWN, to_text
from fedcomp.data.speeches import READER, read_speeches
from fedcomp.data.text_files import lines_of

REAL = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "shakespeare"
LINES = [
    {"play": "hamlet", "speaker": "HAMLET", "i": 1, "text": "Words, words, words."},
    {"play": "hamlet", "speaker": "Hamlet", "i": 2, "text": "The rest is silence."},
    {"play": "lear", "speaker": "Fool", "i": 3, "text": "Nothing, nuncle\u2026"},
]


def written(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
@pytest.mark.parametrize("ask", ["file", "folder"])
def test_roles_are_owners(tmp_path: Path, name: str, ask: str) -> None:
    file = written(tmp_path / name, "".join(json.dumps(line) + "\n\r\n" for line in LINES))
    source = file if ask == "file" else tmp_path
    assert READER.found_in(source)
    dataset = READER.read(source, tmp_path)
    assert dataset.train.clients == ("hamlet/HAMLET", "lear/Fool")
    assert [to_text(row) for row in dataset.train.arrays["inputs"]] == ["Words, words, words.", "Nothing, nuncle\ufffd"]
    assert [to_text(row) for row in dataset.test.arrays["inputs"]] == ["The rest is silence."]
    assert dataset.source == "speeches"
    assert "2 owners" in dataset.label


@pytest.mark.parametrize("name", ["a.json", "jsonl", ".a.jsonl", "a.txt"])
def test_other_files_are_not_speeches(tmp_path: Path, name: str) -> None:
    written(tmp_path / name, "{}")
    assert not READER.found_in(tmp_path)
    assert not READER.found_in(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "holds no speeches; expected JSON objects with play, speaker, text"),
        ("\n\n", "holds no speeches"),
        ("{", "line 1 is not JSON"),
        ('\n{"play": "a", "speaker": "b"}', "line 2: .*; expected an object with play, speaker, text"),
        ('{"play": "a", "speaker": "b", "text": 5}', "line 1"),
        ("[]", "line 1"),
        ("5", "line 1"),
        ("null", "line 1"),
        ("[" * 100_000, "line 1 is not JSON"),
    ],
)
def test_what_is_no_speech_is_refused_by_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(MalformedData, match=message):
        read_speeches(written(tmp_path / "a.jsonl", text), tmp_path)


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.mktemp("any") / "a.jsonl"
    file.write_bytes(content)
    with pytest.raises(DataError):
        read_speeches(file, file.parent)


def test_a_file_that_is_cut_or_damaged_is_named(tmp_path: Path) -> None:
    whole = gzip.compress(json.dumps(LINES[0]).encode() * 50)
    file = tmp_path / "a.jsonl.gz"
    for content, error in (
        (whole[:-20], TruncatedData),
        (whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:], DamagedData),
        (b"\x1f\x8b\x08\x00" + bytes(6) + b"\xff" * 30, DamagedData),
    ):
        file.write_bytes(content)
        with pytest.raises(error, match=r"a\.jsonl\.gz .*; get it again"):
            list(lines_of(file))


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
    with pytest.raises(MalformedData, match="is not UTF-8 text"):
        list(lines_of(tmp_path / "a.txt"))


def test_the_real_speeches() -> None:
    if not REAL.is_dir():
        pytest.skip("the speeches of all plays are not beside the project")
    dataset = read_speeches(REAL, REAL)
    assert len(dataset.train.clients) == 1389
    tested = Counter(bool(last - first) for first, last in zip(*_ends(dataset.test.offsets.tolist()), strict=True))
    assert tested == {True: 1138, False: 1389 - 1138}
    assert 0.15 < len(dataset.test) / (len(dataset.train) + len(dataset.test)) < 0.22
    for split in (dataset.train, dataset.test):
        assert not (split.arrays["inputs"] == UNKNOWN).any()
    hamlet = dataset.train.clients.index("hamlet/HAMLET")
    first = dataset.train.offsets[hamlet]
    assert to_text(dataset.train.arrays["inputs"][first]) == "A little more than kin, and less than kind."


def _ends(offsets: list[int]) -> tuple[list[int], list[int]]:
    return offsets[:-1], offsets[1:]
