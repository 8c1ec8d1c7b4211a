from __future__ import annotations

from pathlib import Path

import pytest

from fedcomp.data.errors import MalformedData
from fedcomp.data.plain_text import READER, read_plain_text
from fedcomp.data.shakespeare_characters import to_text

PLAY = """A Tragedy

First Citizen:
Before we proceed any further,
hear me: speak.

All:
Speak, speak.

First Citizen:
Resolved:
rather to die

than to famish?

ALL:
"""


def test_speakers_are_owners(tmp_path: Path) -> None:
    (tmp_path / "play.txt").write_text(PLAY)
    assert READER.found_in(tmp_path)
    dataset = READER.read(tmp_path, tmp_path)
    assert dataset.train.clients == ("All", "First Citizen")
    said = [to_text(row) for row in dataset.train.arrays["inputs"]]
    assert said == ["Speak, speak.", "Before we proceed any further,\nhear me: speak."]
    assert to_text(dataset.test.arrays["inputs"][0]) == "Resolved:\nrather to die\nthan to famish?"
    assert dataset.source == "text"


def test_line_ends_of_windows_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(PLAY.encode())
    (tmp_path / "b.txt").write_bytes(PLAY.replace("\n", "\r\n").encode())
    first, second = (read_plain_text(tmp_path / name, tmp_path) for name in ("a.txt", "b.txt"))
    assert first.train.arrays["inputs"].tobytes() == second.train.arrays["inputs"].tobytes()


@pytest.mark.parametrize("text", ["", "Call me Ishmael.\n", ":\nno name\n", "A" * 61 + ":\ntoo long a name\n"])
def test_a_text_without_speakers_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "book.txt").write_text(text)
    with pytest.raises(MalformedData, match=r"book\.txt has no speaker; expected .*'ROMEO:'"):
        read_plain_text(tmp_path / "book.txt", tmp_path)


def test_speeches_beside_a_text_are_preferred(tmp_path: Path) -> None:
    (tmp_path / "play.txt").write_text(PLAY)
    (tmp_path / "play.jsonl").write_text("")
    assert not READER.found_in(tmp_path)
    assert READER.found_in(tmp_path / "play.txt")


def test_tiny_shakespeare() -> None:
    file = Path(__file__).resolve().parents[3] / ".." / "shared" / "data" / "shakespeare" / "tinyshakespeare_input.txt"
    if not file.is_file():
        pytest.skip("tiny Shakespeare is not beside the project")
    dataset = read_plain_text(file, file.parent)
    assert "ROMEO" in dataset.train.clients
    assert 280 < len(dataset.train.clients) < 300
    characters = sum(int((split.arrays["targets"] != 0).sum()) for split in (dataset.train, dataset.test))
    assert characters > 0.85 * file.stat().st_size  # names of speakers and empty lines are not spoken
