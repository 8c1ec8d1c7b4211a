from __future__ import annotations

import math

import torch

from fedcomp.metrics import nmse, t_statistic, vnmse


def test_vnmse_by_hand() -> None:
    assert vnmse(torch.tensor([1.0, 1.0]), torch.tensor([1.0, 2.0])) == 0.2
    assert vnmse(torch.zeros(2), torch.zeros(2)) == 0.0
    assert vnmse(torch.ones(2), torch.zeros(2)) == math.inf


def test_vnmse_of_huge_and_tiny_vectors() -> None:
    for scale in (1e25, 1e-25):
        x = torch.tensor([1.0, 2.0]) * scale
        assert math.isclose(vnmse(x * 1.5, x), 0.25, rel_tol=1e-6)


def test_nmse_by_hand() -> None:
    vectors = [torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])]
    assert nmse(torch.tensor([0.5, 0.0]), vectors) == 0.25


def test_t_is_one_for_independent_and_r_for_equal_errors() -> None:
    # T is a mean of 4096 squared normals over its own estimate: its standard deviation is about 2.3 %.
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4096, generator=generator)
    noise = [torch.randn(4096, generator=generator) for _ in range(20)]
    assert abs(t_statistic([x + item for item in noise], x) - 1) < 0.12
    assert math.isclose(t_statistic([x + noise[0]] * 20, x), 20, rel_tol=1e-6)
