from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.allocation.models import ZERO, Model, OuterModel, UnitModel
from fedcomp.allocation.pools import POOL_STEP, merge_counts, pool_order, pool_sizes

CPU = torch.device("cpu")


@given(st.lists(st.integers(1, 5000), max_size=30))
def test_pools_hold_everything_and_are_cut_at_whole_steps(counts: list[int]) -> None:
    sizes = pool_sizes(np.array(counts, dtype=np.int64))
    assert sum(sizes) == sum(counts)
    assert all(size > 0 for size in sizes)
    assert all(size % POOL_STEP == 0 for size in sizes[:-1])
    # A cut is at most half a step from where the class ends.
    ends = np.cumsum(counts)
    for edge in np.cumsum(sizes)[:-1]:
        assert np.abs(ends - edge).min() <= POOL_STEP // 2


def test_the_order_is_by_falling_class_then_by_place() -> None:
    models: list[Model] = [UnitModel(6, 2, np.array([1, ZERO, 3])), OuterModel(np.array([2, ZERO]), np.array([1, -9]))]
    # Classes: 1 1 z z 3 3, then 3 -7 z z.
    assert pool_order(models, floor=-100, device=CPU).tolist() == [4, 5, 6, 0, 1, 7]
    assert pool_order(models, floor=1, device=CPU).tolist() == [4, 5, 6, 0, 1, 7]
    assert pool_order(models, floor=5, device=CPU).tolist() == [0, 1, 4, 5, 6, 7]


@pytest.mark.parametrize("floor", [-100, 0, 2, 100])
def test_counts_are_those_of_the_order(floor: int) -> None:
    models: list[Model] = [UnitModel(6, 2, np.array([1, ZERO, 3])), OuterModel(np.array([2, ZERO]), np.array([1, -9]))]
    values, counts = merge_counts(models, floor=floor)
    assert values.tolist() == sorted(values.tolist(), reverse=True)
    assert min(values) >= floor
    assert counts.sum() == len(pool_order(models, floor=floor, device=CPU)) == 6


def test_nothing_is_no_pool() -> None:
    assert pool_sizes(np.zeros(0, dtype=np.int64)) == []
    assert pool_order([], floor=0, device=CPU).tolist() == []
    assert merge_counts([UnitModel(64, 64, np.array([ZERO]))], floor=0)[0].tolist() == []
