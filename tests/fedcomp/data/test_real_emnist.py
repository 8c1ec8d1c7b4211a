"""The real files, where they are; nothing of them is part of the project."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedcomp.data.checksums import check_listed_files
from fedcomp.data.sources import prepare
from fedcomp.tasks.registry import load_task

FOLDER = Path(__file__).resolve().parents[4] / "shared" / "data" / "emnist"
SAMPLE = FOLDER / "sample2k-byclass-test-images-idx3-ubyte.gz"

pytestmark = pytest.mark.skipif(not SAMPLE.is_file(), reason=f"the real EMNIST sample is not in {FOLDER}")


def test_known_glyphs_stand_upright() -> None:
    found = prepare("emnist", str(SAMPLE), name="sample")
    images, labels = found.train.arrays["inputs"], found.train.arrays["targets"]

    def mean_of(character: str) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        label = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".index(character)
        mean: np.ndarray[tuple[int, int], np.dtype[np.float64]] = images[labels == label].mean(axis=0)
        return mean

    seven = mean_of("7")  # a bar on top, a stem that ends in the left half; transposed its bar is on the left
    assert seven[:14].sum() > 1.2 * seven[14:].sum()
    assert seven[4:10, 6:22].sum(axis=1).max() > 1.5 * seven[6:22, 4:10].sum(axis=0).max()
    el = mean_of("L")  # a stem at the left, a foot at the bottom: transposed a roof and a stem
    assert el[:14, :14].sum() > 2 * el[:14, 14:].sum()
    assert el[14:].sum() > el[:14].sum()
    tee = mean_of("T")  # a bar on top
    assert tee[4:12].sum() > 1.2 * tee[16:24].sum()
    # The fourth image is a 3, open to the left, most of its ink in the right half.
    three = images[3].astype(int)
    assert labels[3] == 3
    assert three[8:22, 14:].sum() > 2 * three[8:22, :14].sum()


def test_the_sample_is_divided_by_the_rule() -> None:
    found = prepare("emnist", str(SAMPLE), name="sample")
    assert (len(found.train), len(found.test)) == (1700, 300)
    assert found.train.arrays["inputs"].max() == 255
    assert found.train.arrays["inputs"][:, 0].mean() < 1


@pytest.mark.slow
def test_the_last_16323_images_are_held_out() -> None:
    found = prepare("emnist", str(FOLDER), name="emnist")
    assert (len(found.train), len(found.test)) == (100_000, 16_323)
    assert found.label.startswith("EMNIST ByClass, its test files only: 100,000 training and 16,323 test characters")
    task = load_task("emnist:data=emnist,partition=dirichlet")
    sizes = [len(task.client_examples(client, 100, seed=1)) for client in range(0, 100, 20)]
    assert min(sizes) > 300


def test_checksums_beside_the_files(tmp_path: Path) -> None:
    listed = "8260ffa2203297a91478ae6af979f7e2fb0c3489d8d989168cc2f32f224d8c31"
    (tmp_path / SAMPLE.name).symlink_to(SAMPLE)
    (tmp_path / "SHA256SUMS").write_text(f"{listed}  {SAMPLE.name}\n")
    assert check_listed_files(tmp_path) == 1
