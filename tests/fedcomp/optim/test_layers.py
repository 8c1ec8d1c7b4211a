from __future__ import annotations

import math

import pytest
import torch

from fedcomp.errors import VectorSpecError
from fedcomp.optim.layers import Layers, norm, trust_ratio


def test_a_vector_is_cut_where_its_tensors_meet() -> None:
    layers = Layers.of([(2, 3), (3,), (), (0, 4), (1, 2)], adapt_vectors=False)
    vector = torch.arange(12.0)
    parts = layers.split(vector)
    assert [part.tolist() for part in parts] == [[0, 1, 2, 3, 4, 5], [6, 7, 8], [9], [], [10, 11]]
    assert layers.adapted == [True, False, False, True, True]
    parts[1][0] = -1.0
    assert vector[6] == -1


def test_all_tensors_are_adapted_when_asked() -> None:
    assert Layers.of([(2, 3), (3,), ()], adapt_vectors=True).adapted == [True, True, True]


@pytest.mark.parametrize("shape", [(7,), (5,), (2, 3)])
def test_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(VectorSpecError, match=r"these tensors need \(6,\)"):
        Layers.of([(2, 3)], adapt_vectors=False).split(torch.zeros(shape))


@pytest.mark.parametrize("scale", [1e25, 1e-40])
def test_norms_neither_over_nor_underflow(scale: float) -> None:
    assert norm(torch.tensor([3.0, 4.0]) * scale) == pytest.approx(5 * scale, rel=1e-4)


def test_the_ratio_is_1_where_a_norm_is_zero() -> None:
    assert [trust_ratio(6, 3), trust_ratio(0, 3), trust_ratio(6, 0), trust_ratio(0, 0)] == [2, 1, 1, 1]
    assert math.isfinite(trust_ratio(1e38, 1e-45))
