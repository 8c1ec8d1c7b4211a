from __future__ import annotations

import pytest
import torch

from fedcomp.errors import DimMismatch
from server_app.buffers import RawMean


def test_integers_take_the_rounded_weighted_mean() -> None:
    mean = RawMean({"n": torch.tensor([10, 20])})
    mean.add({"n": torch.tensor([12, 20])}, weight=1)
    mean.add({"n": torch.tensor([16, 21])}, weight=3)
    assert mean.result()["n"].tolist() == [15, 21]


def test_bools_take_the_weighted_majority() -> None:
    mean = RawMean({"m": torch.tensor([True, False])})
    mean.add({"m": torch.tensor([False, False])}, weight=3)
    mean.add({"m": torch.tensor([True, True])}, weight=1)
    assert mean.result()["m"].tolist() == [False, False]


def test_large_integers_that_all_agree_on_are_exact() -> None:
    large = 2**62 + 1
    mean = RawMean({"n": torch.tensor(large)})
    mean.add({"n": torch.tensor(large)}, weight=5)
    mean.add({"n": torch.tensor(large + 4)}, weight=5)
    assert int(mean.result()["n"]) == large + 2


def test_nothing_added_keeps_the_start() -> None:
    assert RawMean({"n": torch.tensor(3)}).result() == {"n": torch.tensor(3)}
    assert RawMean({}).result() == {}


@pytest.mark.parametrize(
    ("raw", "named"),
    [
        ({}, r"raw tensors are \[\], this model has \['n'\]"),
        ({"n": torch.tensor([1])}, r"'n' is torch.int64 \(1,\)"),
        ({"n": torch.tensor(1, dtype=torch.int32)}, "'n' is torch.int32"),
    ],
)
def test_other_layouts_are_refused(raw: dict[str, torch.Tensor], named: str) -> None:
    with pytest.raises(DimMismatch, match=named):
        RawMean({"n": torch.tensor(3)}).check(raw)
