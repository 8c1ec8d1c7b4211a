from __future__ import annotations

import contextlib

import torch

from fedcomp.training.buffers import copy_buffers, lent_buffers, restore_buffers
from tests.support.training_models import EXAMPLES, all_equal, residual


def test_buffers_are_written_back() -> None:
    model = residual(norm=True)
    tracked = model.blocks[0].norm.running_mean  # type: ignore[index, union-attr]
    copies = copy_buffers([model])
    model(EXAMPLES.inputs)
    assert not all_equal(model, residual(norm=True))
    restore_buffers(copies)
    assert all_equal(model, residual(norm=True))
    # The same tensors, which others may hold.
    assert model.blocks[0].norm.running_mean is tracked  # type: ignore[index, union-attr]


def test_what_is_written_into_lent_buffers_is_lost() -> None:
    model = residual(norm=True)
    tracked = dict(model.named_buffers())
    with contextlib.suppress(ZeroDivisionError), lent_buffers(copy_buffers([model])):
        model(EXAMPLES.inputs)
        assert not all_equal(model, residual(norm=True))
        raise ZeroDivisionError
    assert all_equal(model, residual(norm=True))
    assert all(buffer is tracked[name] for name, buffer in model.named_buffers())


def test_buffers_that_are_not_saved_stay_so() -> None:
    model = torch.nn.Linear(2, 2)
    model.register_buffer("mask", torch.ones(2), persistent=False)
    with lent_buffers(copy_buffers([model])):
        pass
    assert "mask" not in model.state_dict()
