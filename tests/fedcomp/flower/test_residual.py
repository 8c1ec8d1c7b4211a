from __future__ import annotations

import torch
from flwr.app import ConfigRecord, RecordDict

from fedcomp.flower.residual import RECORD, keep_residual, load_residual
from fedcomp.vectors import TensorSpec, VectorSpec

LAYOUT = VectorSpec((TensorSpec("a", (3,), "float32"),))
OTHER = VectorSpec((TensorSpec("b", (3,), "float32"),))


def test_a_residual_is_kept_for_its_layout_only() -> None:
    state = RecordDict()
    assert load_residual(state, LAYOUT) is None
    keep_residual(state, LAYOUT, torch.tensor([1.0, -2.0, 1e-30]))
    kept = load_residual(state, LAYOUT)
    assert kept is not None
    assert torch.equal(kept, torch.tensor([1.0, -2.0, 1e-30]))
    assert load_residual(state, OTHER) is None
    keep_residual(state, OTHER, torch.zeros(3))
    assert load_residual(state, LAYOUT) is None  # one residual at a time: it is as large as the model
    assert len(state) == 1


def test_a_record_of_somebody_else_is_no_residual() -> None:
    assert load_residual(RecordDict({RECORD: ConfigRecord()}), LAYOUT) is None
