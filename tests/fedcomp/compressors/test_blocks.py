from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.compressors.blocks import MIN_BLOCK, Group, plan_blocks, raw_is_shorter


@given(st.integers(0, 200_000), st.integers(8, 16), st.booleans())
def test_every_coordinate_has_one_place(dim: int, log_block: int, raw_tail: bool) -> None:
    plan = plan_blocks(dim, block=2**log_block, raw_tail=raw_tail)
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
    plan = plan_blocks(1_206_590, block=16384, raw_tail=False)
    assert plan.groups == (
        Group(16384, 73, 0, 1_196_032),
        Group(8192, 1, 1_196_032, 1_204_224),
        Group(2048, 1, 1_204_224, 1_206_272),
        Group(256, 1, 1_206_272, 1_206_528),
        Group(256, 1, 1_206_528, 1_206_590),
    )
    assert plan.raw == 0


@pytest.mark.parametrize(
    ("dim", "bits", "shorter"),
    [(0, 2, True), (3, 1, True), (9, 1, True), (10, 1, False), (65, 8, True), (66, 8, False), (256 + 1, 0.1, True)],
)
def test_a_remainder_travels_in_whichever_way_is_shorter(dim: int, bits: float, shorter: bool) -> None:
    assert raw_is_shorter(dim, bits) == shorter


def test_a_raw_tail_is_the_remainder() -> None:
    assert plan_blocks(256 + 5, block=4096, raw_tail=True).raw == 5
    assert plan_blocks(256 + 5, block=4096, raw_tail=False).raw == 0
    assert plan_blocks(512, block=4096, raw_tail=True) == plan_blocks(512, block=4096, raw_tail=False)


def test_a_plan_of_a_huge_dim_is_small() -> None:
    assert len(plan_blocks(2**60 + 5, block=256, raw_tail=False).groups) == 2
