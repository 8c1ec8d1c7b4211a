from __future__ import annotations

import platform
import sys

import numpy as np
import pytest

from fedcomp.data.errors import MissingData
from fedcomp.data.partition import natural
from fedcomp.data.python_help import help_texts
from fedcomp.data.shakespeare_characters import UNKNOWN, to_text


def test_the_label_says_what_the_texts_are() -> None:
    label = help_texts().label
    assert f"help texts of Python {platform.python_version()}" in label
    assert "this is not Shakespeare" in label
    assert "\n" not in label


def test_ten_clients_have_enough_text() -> None:
    dataset = help_texts()
    assert len(dataset.train.clients) > 50
    assert len(dataset.test) > 500
    for seed in range(5):
        sizes = [len(rows) for rows in natural(dataset.train.offsets, 10, seed=seed)]
        assert min(sizes) > 60


def test_the_texts_are_english_in_the_vocabulary() -> None:
    dataset = help_texts()
    targets = dataset.train.arrays["targets"]
    assert (targets == UNKNOWN).sum() < 0.03 * (targets != 0).sum()
    assert "".join(to_text(row) for row in dataset.train.arrays["inputs"]).count(" the ") > 1000


def test_they_are_the_same_each_time() -> None:
    first, second = help_texts(), help_texts()
    np.testing.assert_array_equal(first.train.arrays["inputs"], second.train.arrays["inputs"])
    assert first.train.clients == second.train.clients


def test_a_python_without_them_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydoc_data.topics", None)
    with pytest.raises(MissingData, match="has no help texts"):
        help_texts()
