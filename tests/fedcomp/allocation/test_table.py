from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.allocation.models import MAX_LABEL, ZERO, Model, OuterModel, UnitModel
from fedcomp.allocation.table import label_bits, pack_models, unpack_models
from fedcomp.coding import rice, varint

LABEL = st.one_of(st.just(ZERO), st.integers(-20, 20), st.integers(-MAX_LABEL, MAX_LABEL))


def array(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


@st.composite
def model(draw: st.DrawFn) -> Model:
    labels = array(draw(st.lists(LABEL, min_size=2, max_size=20)))
    if draw(st.booleans()):
        unit = draw(st.integers(16, 64))
        last = draw(st.integers(1, unit))
        return UnitModel(unit * (len(labels) - 1) + last, unit, labels)
    cut = draw(st.integers(1, len(labels) - 1))
    return OuterModel(labels[:cut], labels[cut:])


@given(st.lists(model(), max_size=5))
def test_what_is_packed_comes_back(models: list[Model]) -> None:
    dim = sum(item.size for item in models)
    found = unpack_models(memoryview(pack_models(models)), dim)
    assert found is not None
    assert [type(item) for item in found] == [type(item) for item in models]
    for got, given_model in zip(found, models, strict=True):
        assert got.size == given_model.size
        assert got.labels.tolist() == given_model.labels.tolist()


@given(st.binary(max_size=60), st.integers(0, 3000))
def test_any_bytes_are_refused_or_describe_so_many_coordinates(data: bytes, dim: int) -> None:
    found = unpack_models(memoryview(data), dim)
    if found is not None:
        assert sum(int(item.counts()[1].sum()) for item in found) == dim
        assert all((np.abs(item.labels[item.labels != ZERO]) <= MAX_LABEL).all() for item in found)


def table(numbers: list[int], symbols: list[int], k: int = 0) -> memoryview:
    head = varint.encode(numbers)
    return memoryview(varint.encode([len(head)]) + head + rice.encode(array(symbols), k))


@pytest.mark.parametrize(
    ("numbers", "symbols"),
    [
        ([1, MAX_LABEL, 0, 2, 64, 64], [1]),  # no such kind
        ([1, MAX_LABEL, 0, 0, 64, 0], [1]),  # units of no coordinates
        ([1, 2 * MAX_LABEL + 1, 0, 0, 64, 64], [1]),  # a base that is no label
        ([1, 2**62, 0, 0, 64, 64], [0]),  # a base that is no label, where no label is
        ([1, MAX_LABEL, 16, 0, 64, 64], [1]),  # more low bits than there are
        ([2, MAX_LABEL, 0, 0, 64, 64], [1]),  # a model is missing
        ([1, MAX_LABEL, 0, 0, 63, 64], [1]),  # another dim
        ([1, MAX_LABEL, 0, 0, 64, 64], [1, 1]),  # a label too many
        ([1, 2 * MAX_LABEL, 0, 0, 64, 64], [3]),  # a label beyond the largest
        ([1, MAX_LABEL, 0, 0, 2**62, 1], [1]),  # as many labels as coordinates
        ([1, MAX_LABEL, 0, 1, 2**40, 2**40], [1]),  # sides whose product leaves 64 bits
    ],
)
def test_tables_that_lie_are_refused(numbers: list[int], symbols: list[int]) -> None:
    assert unpack_models(table([1, MAX_LABEL, 0, 0, 64, 64], [1]), 64) is not None
    assert unpack_models(table(numbers, symbols), 64) is None


def test_no_more_labels_are_read_than_a_coordinate_in_eight_has() -> None:
    # A payload of zeros in unary would otherwise keep a reader busy for as long as its sender likes.
    many = table([1, MAX_LABEL, 0, 0, 8000, 1], [0] * 8000)
    assert unpack_models(many, 8000) is None


def test_labels_that_change_little_are_short() -> None:
    smooth, rough = array([5, 5, 6, 5, 4, 5] * 50), array([5, -20, 30, 2, -9, 17] * 50)
    assert label_bits(smooth) < 3 * len(smooth)
    assert label_bits(rough) > 2 * label_bits(smooth)
