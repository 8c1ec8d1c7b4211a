from __future__ import annotations

import importlib
import importlib.util
import io
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedcomp.data.errors import MalformedData, MissingData, MissingReader
from fedcomp.data.femnist import hub_split
from fedcomp.data.sources import prepare

installed = pytest.mark.skipif(
    importlib.util.find_spec("flwr_datasets") is None,
    reason="flwr-datasets is not installed: pip install fedcomp[data]",
)


def test_without_flwr_datasets_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    with pytest.raises(MissingReader, match=r"flwrlabs/femnist .* pip install 'fedcomp\[data\]'"):
        prepare("emnist", "hub", name="some")


@installed
def test_rows_of_one_writer_come_together(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    ink = ((rng.random((2500, 28, 28)) < 0.2) * 200).astype(np.uint8)
    owner = np.arange(2500) // 7 % 9
    file = write_parquet(tmp_path / "a.parquet", ink, owner)
    split = hub_split("parquet", tmp_path, data_files={"train": str(file)}, cache_dir=str(tmp_path / "cache"))
    order = np.argsort(owner, kind="stable")
    assert split.clients == tuple(f"f{i}" for i in range(9))
    assert np.array_equal(np.diff(split.offsets), np.bincount(owner))
    assert np.array_equal(split.arrays["inputs"], ink[order])
    assert np.array_equal(split.arrays["targets"], (np.arange(2500) % 62)[order])


@installed
def test_other_columns_are_named(tmp_path: Path) -> None:
    file = write_parquet(tmp_path / "a.parquet", np.zeros((1, 28, 28), np.uint8), np.zeros(1, np.int64), writer="w")
    with pytest.raises(MalformedData, match="parquet has no column writer_id; it has image, w, character"):
        hub_split("parquet", tmp_path, data_files={"train": str(file)}, cache_dir=str(tmp_path / "cache"))


@installed
def test_what_cannot_be_found_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingData, match="cannot get parquet from Hugging Face"):
        hub_split("parquet", tmp_path, data_files={"train": str(tmp_path / "nothing.parquet")})


def write_parquet(path: Path, ink: np.ndarray, owner: np.ndarray, *, writer: str = "writer_id") -> Path:
    """Write rows as ``flwrlabs/femnist`` has them: strokes dark on light, as PNG."""
    datasets = importlib.import_module("datasets")
    kinds = datasets.Features(
        {
            "image": datasets.Image(),
            writer: datasets.Value("string"),
            "character": datasets.ClassLabel(num_classes=62),
        }
    )
    columns = {
        "image": [{"bytes": png(255 - image), "path": None} for image in ink],
        writer: [f"f{i}" for i in owner],
        "character": [i % 62 for i in range(len(ink))],
    }
    datasets.Dataset.from_dict(columns, features=kinds).to_parquet(str(path))
    return path


def png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()
