from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.compressors.blocks import MIN_BLOCK, Group, plan_blocks


@given(st.integers(0, 200_000), st.integers(8, 16), st.integers(1, 8))
def test_every_coordinate_has_one_place(dim: int, log_block: int, bits: int) -> None:
    plan = plan_blocks(dim, block=2**log_block, bits=bits)
    position = 0
    for group in plan.groups:
        assert group.start == position
        assert group.size & (group.size - 1) == 0
        assert MIN_BLOCK <= group.size <= 2**log_block
        assert 0 <= group.size * group.count - (group.stop - group.start) < MIN_BLOCK
        position = group.stop
    assert position + plan.raw == dim
    padded = plan.num_rotated + plan.raw - dim
    assert 0 <= padded < MIN_BLOCK


def test_the_cut_of_the_emnist_cnn() -> None:
    plan = plan_blocks(1_206_590, block=16384, bits=2)
    assert plan.groups == (
        Group(16384, 73, 0, 1_196_032),
        Group(8192, 1, 1_196_032, 1_204_224),
        Group(2048, 1, 1_204_224, 1_206_272),
        Group(256, 1, 1_206_272, 1_206_528),
        Group(256, 1, 1_206_528, 1_206_590),
    )
    assert plan.raw == 0


@pytest.mark.parametrize(("dim", "bits", "raw"), [(0, 2, 0), (3, 1, 3), (9, 1, 9), (10, 1, 0), (65, 8, 65), (66, 8, 0)])
def test_a_remainder_travels_in_whichever_way_is_shorter(dim: int, bits: int, raw: int) -> None:
    assert plan_blocks(dim, block=4096, bits=bits).raw == raw


def test_a_plan_of_a_huge_dim_is_small() -> None:
    assert len(plan_blocks(2**60 + 5, block=256, bits=1).groups) == 1
