from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedcomp.errors import VectorSpecError
from fedcomp.optim.lars import Lars

SHAPES = [(2, 3), (3,), (0, 2), (2, 2), ()]
DIM = 14


def vectors(count: int, *, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(DIM, generator=generator) for _ in range(count)]


def run(model: Tensor, updates: list[Tensor], *, optimizer: Lars | None = None, **options: Any) -> list[Tensor]:
    optimizer = optimizer or Lars(SHAPES, **{"learning_rate": 2.0} | options)
    models = [model]
    for index, update in enumerate(updates, start=1):
        models.append(optimizer.step(models[-1], update, weight=1.0, round_index=index))
    return models[1:]


def test_two_steps_by_hand() -> None:
    # w = (3, 4) and Δ = (0, -2): local = 0.1·5/(2 + 0.5·5) = 1/9; p = 2/9·(Δ - 0.5·w) = 2/9·(-1.5, -4).
    optimizer = Lars([(2, 1)], learning_rate=2.0, momentum=0.5, trust=0.1, weight_decay=0.5)
    first = optimizer.step(torch.tensor([3.0, 4.0]), torch.tensor([0.0, -2.0]), weight=1.0, round_index=1)
    torch.testing.assert_close(first, torch.tensor([3 - 1 / 3, 4 - 8 / 9]))
    # Half of p stays. Now w = (8/3, 28/9) of length √(576 + 784)/9, Δ = (1, 0).
    second = optimizer.step(first, torch.tensor([1.0, 0.0]), weight=1.0, round_index=2)
    length = (576 + 784) ** 0.5 / 9
    local = 0.1 * length / (1 + 0.5 * length)
    p = [-1 / 6 + 2 * local * (1 - 4 / 3), -4 / 9 + 2 * local * (-14 / 9)]
    torch.testing.assert_close(second, torch.tensor([8 / 3 + p[0], 28 / 9 + p[1]]))


def by_formula(model: Tensor, updates: list[Tensor], *, decay: float, everywhere: bool) -> Tensor:
    """Return the model after the updates at rate 2, momentum 0.9 and trust 0.001, in float64, tensor by tensor."""
    done = []
    for part, *deltas in zip(*(torch.split(x.double(), [6, 3, 0, 4, 1]) for x in (model, *updates)), strict=True):
        adapted = everywhere or part.numel() in (6, 4)
        w, p = part, torch.zeros_like(part)
        for delta in deltas:
            local, pull = 1.0, delta
            if adapted and part.numel():
                local = float(0.001 * w.norm() / (delta.norm() + decay * w.norm()))
                pull = delta - decay * w
            p = 0.9 * p + 2.0 * local * pull
            w = w + p
        done.append(w)
    return torch.cat(done).float()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("everywhere", [False, True])
def test_many_steps_are_the_formula(decay: float, everywhere: bool) -> None:
    start, *updates = vectors(6)
    found = run(start, updates, weight_decay=decay, adapt_vectors=everywhere)[-1]
    torch.testing.assert_close(found, by_formula(start, updates, decay=decay, everywhere=everywhere))


@given(seed=st.integers(0, 2**32), rate=st.floats(0.01, 10))
def test_a_matrix_moves_by_rate_times_trust_times_its_length(seed: int, rate: float) -> None:
    model, update = vectors(2, seed=seed)
    moved = run(model, [update], learning_rate=rate, trust=0.02)[0] - model
    for start, stop in ((0, 6), (9, 13)):
        assert float(moved[start:stop].norm() / model[start:stop].norm()) == pytest.approx(0.02 * rate, rel=1e-2)
    # Vectors move as under FedAvgM.
    torch.testing.assert_close(moved[6:9], rate * update[6:9], rtol=1e-4, atol=1e-5)


@given(seed=st.integers(0, 2**32), powers=st.tuples(st.integers(-30, 30), st.integers(-30, 30)))
def test_the_scale_of_each_matrix_update_does_not_matter(seed: int, powers: tuple[int, int]) -> None:
    model, *updates = vectors(4, seed=seed)
    scales = torch.ones(DIM)
    scales[0:6], scales[9:13] = 2.0 ** powers[0], 2.0 ** powers[1]
    for one, two in zip(run(model, updates), run(model, [scales * update for update in updates]), strict=True):
        assert torch.equal(one, two)


@given(seed=st.integers(0, 2**32), power=st.integers(-20, 20))
def test_a_larger_model_takes_larger_steps(seed: int, power: int) -> None:
    model, *updates = vectors(4, seed=seed)
    one = run(model, updates, adapt_vectors=True)[-1]
    assert torch.equal(run(model * 2.0**power, updates, adapt_vectors=True)[-1], one * 2.0**power)


def test_where_a_norm_is_zero_the_ratio_is_1() -> None:
    update = vectors(1)[0]
    torch.testing.assert_close(run(torch.zeros(DIM), [update])[0], 2 * update)
    start = vectors(1)[0]
    assert torch.equal(run(start, [torch.zeros(DIM)])[0], start)
    decayed = run(start, [torch.zeros(DIM)], weight_decay=0.1)[0]
    torch.testing.assert_close(decayed[:6], 0.8 * start[:6])
    assert torch.equal(decayed[6:9], start[6:9])


def test_large_and_small_numbers_survive() -> None:
    model, update = vectors(2)
    for size, change in ((1e25, 1e-35), (1e-30, 1e25), (1e25, 1e25)):
        moved = run(model * size, [update * change], trust=0.5, adapt_vectors=True)[0]
        assert float((moved / size - model)[:6].norm() / model[:6].norm()) == pytest.approx(1.0, rel=1e-3)


def test_the_rate_is_inside_the_velocity() -> None:
    start, update = vectors(2)
    optimizer = Lars(SHAPES, learning_rate=2.0, momentum=0.5)
    first = optimizer.step(start, update, weight=1.0, round_index=1, learning_rate=1.0)
    # A step with a rate of 0 still moves by what is left of the first.
    second = optimizer.step(first, update, weight=1.0, round_index=2, learning_rate=0.0)
    torch.testing.assert_close(second - first, 0.5 * (first - start))
    # The next one has the configured rate again.
    third = optimizer.step(second, update, weight=1.0, round_index=3)
    torch.testing.assert_close((third - second)[6:9], 0.25 * (first - start)[6:9] + 2.0 * update[6:9])


@pytest.mark.parametrize("split", range(5))
def test_a_restored_optimizer_goes_on_to_the_bit(split: int) -> None:
    start, *updates = vectors(6)
    whole = run(start, updates, weight_decay=0.01)
    first = Lars(SHAPES, learning_rate=2.0, weight_decay=0.01)
    before = run(start, updates[:split], optimizer=first)
    state = first.state()
    run(start, updates[:2], optimizer=first)  # what is saved is a copy
    second = Lars(SHAPES, learning_rate=2.0, weight_decay=0.01)
    second.restore(state)
    for _ in range(2):  # and restoring takes a copy too
        after = run((before or [start])[-1], updates[split:], optimizer=second)
        assert all(torch.equal(one, two) for one, two in zip(after, whole[split:], strict=True))
        second.restore(state)


def test_after_a_reset_it_is_as_new() -> None:
    start, *updates = vectors(4)
    optimizer = Lars(SHAPES, learning_rate=2.0)
    assert optimizer.state() == {}
    run(start, updates, optimizer=optimizer)
    assert optimizer.state().keys() == {"velocity"}
    optimizer.reset()
    assert optimizer.state() == {}
    again = run(start, updates, optimizer=optimizer)
    assert all(torch.equal(one, two) for one, two in zip(again, run(start, updates), strict=True))


def test_the_vectors_given_are_not_changed() -> None:
    start, *updates = vectors(3)
    copies = [x.clone() for x in (start, *updates)]
    run(start, updates)
    assert all(torch.equal(one, two) for one, two in zip((start, *updates), copies, strict=True))


def test_a_vector_of_another_dim_is_refused_before_anything_is_remembered() -> None:
    model, update = vectors(2)
    optimizer = Lars(SHAPES, learning_rate=2.0)
    with pytest.raises(VectorSpecError, match=r"shape \(15,\), these tensors need \(14,\)"):
        optimizer.step(torch.cat([model, model[:1]]), update, weight=1.0, round_index=1)
    assert optimizer.state() == {}


def test_an_empty_model_stays_empty() -> None:
    assert Lars([], learning_rate=2.0).step(torch.zeros(0), torch.zeros(0), weight=1.0, round_index=1).shape == (0,)
