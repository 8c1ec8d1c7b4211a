from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedcomp.data import shakespeare_hub
from fedcomp.data.errors import MalformedData
from fedcomp.data.shakespeare_characters import to_text, to_tokens
from fedcomp.data.shakespeare_hub import READER, hub_split

TEXT = "Now is the winter of our discontent\nMade glorious summer, by this sun of York, and all the clouds"
ROLES = ["RICHARD", "RICHARD", "ANNE", "RICHARD"] + ["ANNE"] * 7


def batch(first: int, last: int) -> dict[str, list[Any]]:
    places = range(first, last)
    return {
        "character_id": ROLES[first:last],
        "x": [TEXT[k : k + 80] for k in places],
        "y": [TEXT[k + 80] for k in places],
    }


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, list[Any]]]:
    """Two batches in place of the download; a test may change them."""
    batches = [batch(0, 3), batch(3, 11)]

    def fake(name: str, columns: tuple[str, ...], **options: Any) -> Iterator[dict[str, list[Any]]]:
        assert name == "flwrlabs/shakespeare"
        assert columns == ("character_id", "x", "y")
        yield from batches

    monkeypatch.setattr(shakespeare_hub, "hub_batches", fake)
    return batches


def check(split: Any) -> None:
    assert split.clients == ("RICHARD", "ANNE")
    assert split.offsets.tolist() == [0, 3, 11]
    places = [0, 1, 3, 2, 4, 5, 6, 7, 8, 9, 10]
    assert [to_text(row) for row in split.arrays["inputs"]] == [TEXT[k : k + 80] for k in places]
    np.testing.assert_array_equal(split.arrays["targets"], [to_tokens(TEXT[k + 1 : k + 81]) for k in places])


def test_rows_of_one_role_are_brought_together(tmp_path: Path, hub: list[dict[str, list[Any]]]) -> None:
    check(hub_split("flwrlabs/shakespeare", tmp_path))


def test_some_of_each_roles_windows_are_held_out(tmp_path: Path, hub: list[dict[str, list[Any]]]) -> None:
    dataset = READER.read(Path("hub"), tmp_path)
    assert (dataset.kind, dataset.source) == ("shakespeare", "hub")
    assert dataset.train.offsets.tolist() == [0, 3, 10]
    assert dataset.test.offsets.tolist() == [0, 0, 1]
    assert "flwrlabs/shakespeare" in dataset.label


def test_a_wrong_window_is_told(tmp_path: Path, hub: list[dict[str, list[Any]]]) -> None:
    hub[1]["x"][2] = "short"
    with pytest.raises(MalformedData, match=r"flwrlabs/shakespeare: .*short.*80 characters"):
        hub_split("flwrlabs/shakespeare", tmp_path)


def test_flwr_datasets_reads_the_same_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_spec("flwr_datasets") is None:
        pytest.skip("flwr-datasets is not installed")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rows = batch(0, 11)
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows)
        writer.writerows(zip(*rows.values(), strict=True))
    files = {"train": str(tmp_path / "rows.csv")}
    check(hub_split("csv", tmp_path, data_files=files, cache_dir=str(tmp_path / "cache")))
