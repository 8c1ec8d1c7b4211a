from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedcomp.errors import VectorSpecError
from fedcomp.optim.lamb import Lamb

SHAPES = [(2, 3), (3,), (0, 2), (2, 2), ()]
DIM = 14


def vectors(count: int, *, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(DIM, generator=generator) for _ in range(count)]


def run(model: Tensor, updates: list[Tensor], *, optimizer: Lamb | None = None, **options: Any) -> list[Tensor]:
    optimizer = optimizer or Lamb(SHAPES, **{"learning_rate": 0.1} | options)
    models = [model]
    for index, update in enumerate(updates, start=1):
        models.append(optimizer.step(models[-1], update, weight=1.0, round_index=index))
    return models[1:]


def test_two_steps_by_hand() -> None:
    # w = (3, 4), beta_1 = 0.5, beta_2 = 0.75, tau = 0. Step 1: m = 0.5·Δ, v = 0.25·Δ², so corrected Δ/|Δ| = (1, -1), of
    # length √2; ‖w‖ = 5, so w moves by 0.1·5/√2 along it.
    optimizer = Lamb([(1, 2)], learning_rate=0.1, beta_1=0.5, beta_2=0.75, tau=0.0)
    start = torch.tensor([3.0, 4.0])
    first = optimizer.step(start, torch.tensor([0.2, -7.0]), weight=1.0, round_index=1)
    move = 0.1 * 5 / math.sqrt(2)
    torch.testing.assert_close(first, torch.tensor([3 + move, 4 - move]))
    # Step 2, Δ = (0.4, 7): m = (0.25, 1.75), v = (0.0475, 21.4375), corrections 1 - 0.25 and 1 - 0.5625.
    second = optimizer.step(first, torch.tensor([0.4, 7.0]), weight=1.0, round_index=2)
    r = [0.25 / 0.75 / math.sqrt(0.0475 / 0.4375), 1.75 / 0.75 / math.sqrt(21.4375 / 0.4375)]
    length = 0.1 * math.hypot(3 + move, 4 - move) / math.hypot(*r)
    torch.testing.assert_close(second, torch.tensor([3 + move + length * r[0], 4 - move + length * r[1]]))


def by_formula(model: Tensor, updates: list[Tensor], *, decay: float, everywhere: bool) -> Tensor:
    """Return the model after the updates with a rate of 0.1, in float64 and tensor by tensor."""
    done = []
    for part, *deltas in zip(*(torch.split(x.double(), [6, 3, 0, 4, 1]) for x in (model, *updates)), strict=True):
        adapted = everywhere or part.numel() in (6, 4)
        w, m, v = part, torch.zeros_like(part), torch.zeros_like(part)
        for t, delta in enumerate(deltas, start=1):
            m, v = 0.9 * m + 0.1 * delta, 0.999 * v + 0.001 * delta**2
            u = m / (1 - 0.9**t) / ((v / (1 - 0.999**t)).sqrt() + 1e-6) - (decay * w if adapted else 0)
            w = w + 0.1 * (float(w.norm() / u.norm()) if adapted and w.numel() else 1.0) * u
        done.append(w)
    return torch.cat(done).float()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("everywhere", [False, True])
def test_many_steps_are_the_formula(decay: float, everywhere: bool) -> None:
    start, *updates = vectors(6)
    found = run(start, updates, weight_decay=decay, adapt_vectors=everywhere)[-1]
    torch.testing.assert_close(found, by_formula(start, updates, decay=decay, everywhere=everywhere))


@given(seed=st.integers(0, 2**32), rate=st.floats(0.001, 1))
def test_a_matrix_moves_by_the_rate_times_its_length(seed: int, rate: float) -> None:
    model, update = vectors(2, seed=seed)
    moved = run(model, [update], learning_rate=rate)[0] - model
    for start, stop in ((0, 6), (9, 13)):
        assert float(moved[start:stop].norm() / model[start:stop].norm()) == pytest.approx(rate, rel=1e-3)


@given(seed=st.integers(0, 2**32), power=st.integers(-20, 20))
def test_the_scale_of_the_updates_does_not_matter(seed: int, power: int) -> None:
    # To the bit for powers of two, where τ vanishes beside the root.
    model, *updates = vectors(4, seed=seed)
    scaled = [update * 2.0**power for update in updates]
    for one, two in zip(run(model, updates, tau=1e-30), run(model, scaled, tau=1e-30), strict=True):
        assert torch.equal(one, two)


@given(seed=st.integers(0, 2**32), power=st.integers(-20, 20))
def test_a_larger_model_takes_larger_steps(seed: int, power: int) -> None:
    model, *updates = vectors(4, seed=seed)
    one = run(model, updates, adapt_vectors=True)[-1]
    two = run(model * 2.0**power, updates, adapt_vectors=True)[-1]
    torch.testing.assert_close(two, one * 2.0**power, rtol=1e-5, atol=1e-6 * 2.0**power)


def test_where_a_norm_is_zero_the_ratio_is_1() -> None:
    model, update = torch.zeros(DIM), vectors(1)[0]
    zero_model = run(model, [update], tau=1e-30)[0]
    torch.testing.assert_close(zero_model, 0.1 * update.sign())
    start = vectors(1)[0]
    assert torch.equal(run(start, [torch.zeros(DIM)])[0], start)


def test_large_and_small_numbers_survive() -> None:
    model, update = vectors(2)
    for size, change, tau in ((1e25, 1e-15, 0.0), (1e-20, 1e15, 0.0), (1e30, 1e15, 0.0), (1e24, 1e-25, 1e-6)):
        moved = run(model * size, [update * change], tau=tau)[0]
        assert moved.isfinite().all()
        assert float((moved / size - model)[:6].norm() / model[:6].norm()) == pytest.approx(0.1, rel=1e-3)


def test_a_step_may_have_a_rate_of_its_own() -> None:
    start, first, second = vectors(3)
    optimizer = Lamb(SHAPES, learning_rate=0.1)
    still = optimizer.step(start, first, weight=1.0, round_index=1, learning_rate=0.0)
    assert torch.equal(still, start)
    # The moments went on; the next step has the configured rate again.
    found = optimizer.step(start, second, weight=1.0, round_index=2)
    other = Lamb(SHAPES, learning_rate=7.0)
    other.step(start, first, weight=1.0, round_index=1)
    assert torch.equal(found, other.step(start, second, weight=1.0, round_index=2, learning_rate=0.1))
    assert not torch.equal(found, run(start, [second])[0])


@pytest.mark.parametrize("split", range(5))
def test_a_restored_optimizer_goes_on_to_the_bit(split: int) -> None:
    start, *updates = vectors(6)
    whole = run(start, updates, weight_decay=0.01)
    first = Lamb(SHAPES, learning_rate=0.1, weight_decay=0.01)
    before = run(start, updates[:split], optimizer=first)
    state = first.state()
    run(start, updates[:2], optimizer=first)  # what is saved is a copy
    second = Lamb(SHAPES, learning_rate=0.1, weight_decay=0.01)
    second.restore(state)
    for _ in range(2):  # and restoring takes a copy too
        after = run((before or [start])[-1], updates[split:], optimizer=second)
        assert all(torch.equal(one, two) for one, two in zip(after, whole[split:], strict=True))
        second.restore(state)


def test_after_a_reset_it_is_as_new() -> None:
    start, *updates = vectors(4)
    optimizer = Lamb(SHAPES, learning_rate=0.1)
    assert optimizer.state() == {}
    run(start, updates, optimizer=optimizer)
    assert optimizer.state().keys() == {"m_t", "v_t", "steps"}
    assert int(optimizer.state()["steps"]) == 3
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
    optimizer = Lamb(SHAPES, learning_rate=0.1)
    with pytest.raises(VectorSpecError, match=r"shape \(13,\), these tensors need \(14,\)"):
        optimizer.step(model, update[:13], weight=1.0, round_index=1)
    assert optimizer.state() == {}


def test_an_empty_model_stays_empty() -> None:
    assert Lamb([], learning_rate=0.1).step(torch.zeros(0), torch.zeros(0), weight=1.0, round_index=1).shape == (0,)
