"""The models of all tensors as bytes: what kind, which sizes, and all labels in one Golomb–Rice code."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedcomp.allocation.models import MAX_LABEL, ZERO, Labels, Model, OuterModel, UnitModel
from fedcomp.coding import rice, varint

_UNITS, _OUTER = 0, 1
_LABELS_PER_COORDINATE = 8
"""No more labels than a coordinate in so many, and some a tensor, so that short bytes cannot keep a reader busy."""


def label_bits(labels: Labels) -> int:
    """Return the bits that these labels take on their own."""
    symbols = _to_symbols(labels, _base(labels))
    return rice.encoded_bits(symbols, rice.best_k(symbols))


def pack_models(models: Sequence[Model]) -> bytes:
    """Map models to bytes."""
    labels = np.concatenate([model.labels for model in models]) if models else np.zeros(0, dtype=np.int64)
    base = _base(labels)
    symbols = _to_symbols(labels, base)
    k = rice.best_k(symbols)
    numbers = [len(models), base + MAX_LABEL, k]
    for model in models:
        if isinstance(model, UnitModel):
            numbers += [_UNITS, model.size, model.unit]
        else:
            numbers += [_OUTER, len(model.rows), len(model.columns)]
    head = varint.encode(numbers)
    return varint.encode([len(head)]) + head + rice.encode(symbols, k)


def unpack_models(data: memoryview, dim: int) -> list[Model] | None:
    """Undo ``pack_models`` for models of ``dim`` coordinates; None when the bytes are none that it could write."""
    split = _split(data)
    numbers = varint.decode(split[0]) if split else None
    if split is None or numbers is None or len(numbers) < 3 or len(numbers) != 3 + 3 * numbers[0]:
        return None
    base, k = numbers[1] - MAX_LABEL, numbers[2]
    shapes = [tuple(numbers[at : at + 3]) for at in range(3, len(numbers), 3)]
    if abs(base) > MAX_LABEL or k > rice.MAX_K or any(kind > _OUTER or b == 0 for kind, _, b in shapes):
        return None
    sizes = [a if kind == _UNITS else a * b for kind, a, b in shapes]
    counts = [-(-a // b) if kind == _UNITS else a + b for kind, a, b in shapes]
    if sum(sizes) != dim or sum(counts) > dim // _LABELS_PER_COORDINATE + 64 * len(shapes):
        return None
    symbols = rice.decode(split[1], sum(counts), k)
    labels = None if symbols is None else _from_symbols(symbols, base)
    if labels is None:
        return None
    models: list[Model] = []
    used = 0
    for (kind, a, b), count in zip(shapes, counts, strict=True):
        part = labels[used : used + count]
        models.append(UnitModel(a, b, part) if kind == _UNITS else OuterModel(part[:a], part[a:]))
        used += count
    return models


def is_small_enough(model: Model, dim: int) -> bool:
    """Whether a table with this model may be read again."""
    return len(model.labels) <= model.size // _LABELS_PER_COORDINATE + 64 and model.size <= dim


def _split(data: memoryview) -> tuple[memoryview, memoryview] | None:
    """Return the head, whose length comes first, and what follows it."""
    start = next((index + 1 for index, byte in enumerate(data[: varint.MAX_BYTES]) if byte < 0x80), 0)
    length = varint.decode(data[:start])
    if not length or start + length[0] > len(data):
        return None
    return data[start : start + length[0]], data[start + length[0] :]


def _base(labels: Labels) -> int:
    there = labels[labels != ZERO]
    return int(there[0]) if len(there) else 0


def _to_symbols(labels: Labels, base: int) -> Labels:
    """Return 0 for ZERO, otherwise 1 + the zigzag code of the difference from the label with energy before it."""
    there = labels != ZERO
    steps = np.diff(labels[there], prepend=base)
    symbols = np.zeros(len(labels), dtype=np.int64)
    symbols[there] = np.where(steps >= 0, 2 * steps, -2 * steps - 1) + 1
    return symbols


def _from_symbols(symbols: Labels, base: int) -> Labels | None:
    there = symbols > 0
    folded = symbols[there] - 1
    if (folded > 4 * MAX_LABEL).any():
        return None
    steps = np.where(folded % 2 == 0, folded // 2, -(folded + 1) // 2)
    labels = np.full(len(symbols), ZERO, dtype=np.int64)
    labels[there] = base + np.cumsum(steps)
    return labels if (np.abs(labels[there]) <= MAX_LABEL).all() else None
