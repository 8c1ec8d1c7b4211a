"""The error-feedback residual of a client, in the context's state.

A cache: Flower keeps the state for one run, and loses it when the SuperNode's process ends. What it held is then not
sent later, which costs accuracy for some rounds and nothing else.
"""

from __future__ import annotations

import torch
from flwr.app import Array, ArrayRecord, RecordDict
from torch import Tensor

from fedcomp.vectors import VectorSpec

RECORD = "fedcomp.residual"


def load_residual(state: RecordDict, layout: VectorSpec) -> Tensor | None:
    """Return the residual kept for this layout, float32 of shape (dim,); None when there is none."""
    record = state.get(RECORD)
    kept = record.get(layout.fingerprint) if isinstance(record, ArrayRecord) else None
    return torch.from_numpy(kept.numpy()) if kept is not None else None


def keep_residual(state: RecordDict, layout: VectorSpec, residual: Tensor) -> None:
    """Keep a residual instead of the one before."""
    state[RECORD] = ArrayRecord({layout.fingerprint: Array(residual.cpu().numpy())})
