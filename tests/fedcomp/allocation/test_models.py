from __future__ import annotations

import numpy as np
import pytest
import torch

from fedcomp.allocation.models import ZERO, Model, OuterModel, TensorEnergy, UnitModel, bits_needed, candidates

CPU = torch.device("cpu")


def energies(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).square()


@pytest.mark.parametrize("shape", [(), (1,), (5,), (64,), (300,), (20, 30), (8, 4, 3, 3), (0,), (0, 4), (1, 700)])
def test_every_model_says_of_every_coordinate(shape: tuple[int, ...]) -> None:
    energy = energies(*shape).reshape(-1)
    found = list(candidates(TensorEnergy(energy), shape))
    assert isinstance(found[0], UnitModel)
    for model in found:
        classes = model.classes(CPU)
        assert classes.shape == (energy.numel(),)
        assert classes.dtype == torch.int16
        values, counts = np.unique(classes.numpy(), return_counts=True)
        expected = dict(zip(*(part.tolist() for part in model.counts()), strict=True))
        assert dict(zip(values.tolist(), counts.tolist(), strict=True)) == expected


def test_a_label_is_the_energy_in_steps_of_three_decibels() -> None:
    energy = torch.tensor([1.0] * 32 + [8.0] * 32 + [0.0] * 32 + [0.25] * 4, dtype=torch.float64)
    model = next(m for m in candidates(TensorEnergy(energy), (100,)) if isinstance(m, UnitModel) and m.unit == 32)
    assert model.labels.tolist() == [0, 3, ZERO, -2]


def test_an_outer_product_is_found() -> None:
    rows, columns = 2.0 ** torch.arange(-6, 6), 2.0 ** (torch.arange(40) % 9)
    energy = (rows[:, None] * columns[None, :] * energies(12, 40)).double()
    energy[3] = 0
    energy[:, 7] = 0
    outer = next(m for m in candidates(TensorEnergy(energy.reshape(-1)), (12, 40)) if isinstance(m, OuterModel))
    classes = outer.classes(CPU).view(12, 40).double()
    true = torch.log2(rows[:, None] * columns[None, :])
    there = energy > 0
    assert bool((classes[3] == ZERO).all())
    assert bool((classes[:, 7] == ZERO).all())
    # Twelve squares of normal numbers tell a mean energy to a factor of some 1.5, that is 0.6 of a step, and rounding
    # adds a half a side; what all have in common cancels against nothing, so it is compared as it is.
    assert float((classes - true)[there].abs().mean()) < 1.2


def test_what_is_not_zero_never_has_the_class_of_zero() -> None:
    energy = torch.zeros(64, 64, dtype=torch.float64)
    energy[5, 6] = 1e-300
    energy[9, 9] = 1.0
    for model in candidates(TensorEnergy(energy.reshape(-1)), (64, 64)):
        classes = model.classes(CPU).view(64, 64)
        assert int(classes[5, 6]) > ZERO // 2
        assert int(classes[9, 9]) > ZERO // 2


def test_bits_are_those_of_reverse_water_filling() -> None:
    counts, totals = np.array([100, 100]), np.array([1600.0, 0.0])
    # 16 a coordinate over a water of 1 is two bits and a rest of 1/(2·ln 2); nothing costs nothing.
    assert bits_needed(counts, totals, 1.0) == pytest.approx(100 * (2 + 1 / (2 * np.log(2))))
    assert bits_needed(counts, np.array([0.0, 0.0]), 1.0) == 0


def test_models_are_ordered_by_simplicity() -> None:
    sizes = [
        len(model.labels) for model in candidates(TensorEnergy(energies(4096)), (4096,)) if isinstance(model, UnitModel)
    ]
    assert sizes[0] == 1
    assert sizes[1:] == sorted(sizes[1:], reverse=True)


def total(model: Model) -> int:
    return int(model.counts()[1].sum())


def test_convolutions_can_be_split_at_each_axis() -> None:
    found = [m for m in candidates(TensorEnergy(energies(8 * 4 * 9)), (8, 4, 3, 3)) if isinstance(m, OuterModel)]
    assert [(len(m.rows), len(m.columns)) for m in found] == [(8, 36), (32, 9), (96, 3)]
    assert {total(m) for m in found} == {288}
