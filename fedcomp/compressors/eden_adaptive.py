"""EDEN with bits where the energy is: coordinates of like energy are pooled, each pool at the rate that it is worth.

Reverse water-filling over a Gaussian source (Cover, Thomas, "Elements of information theory", §10.3.3), here over the
pools of ``fedcomp.allocation``. What the decoder needs to find the pools, and their rates, are part of the budget.
Which coordinates are pooled depends on the vector and never on the seed, so each pool's estimate stays unbiased.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from torch import Tensor

from fedcomp.allocation.models import ZERO, Labels, Model, TensorEnergy, bits_needed, candidates
from fedcomp.allocation.pools import merge_counts, pool_order, pool_sizes
from fedcomp.allocation.table import is_small_enough, label_bits, pack_models, unpack_models
from fedcomp.allocation.waterfill import Floats, Ladder, expected_error, fill
from fedcomp.compressors.blocks import MIN_BLOCK, RAW_BYTES, SCALE_BYTES, BlockPlan, Group, plan_blocks, raw_is_shorter
from fedcomp.compressors.eden_blocks import Rotation, block_means, energies_left
from fedcomp.compressors.eden_body import decode_body, encode_body
from fedcomp.compressors.eden_codes import Code
from fedcomp.compressors.eden_params import EdenParams
from fedcomp.compressors.means import pack_means
from fedcomp.compressors.rates import MAX_RATE, ONE_BIT
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.transforms.unit_range import power_of_two

RATE_STEP = 16
"""A pool's rate is sent in 1/4,096 of a bit, two bytes."""

_PREFIX = struct.Struct("<IhH")
_RATE_BYTES = 2
DETAILS = (0.3, 10.0, 300.0)
_POOL_BITS = 8 * (_RATE_BYTES + 4 * SCALE_BYTES)
"""What one pool more costs, about: its rate and the scales of its smaller blocks."""


@dataclass(frozen=True)
class Layout:
    """How the coordinates are pooled.

    Attributes
    ----------
    models
        Of the tensors.
    floor
        The lowest class.
    sizes, plan
        The pools' sizes, and the cut into blocks.
    share_left
        The expected error with a rate for each class, as a share of that with one rate, if no table had to be sent.
    """

    models: Sequence[Model]
    floor: int
    sizes: Sequence[int]
    plan: BlockPlan
    share_left: float


def tensor_energies(x: Tensor, shapes: Sequence[tuple[int, ...]]) -> list[TensorEnergy]:
    """Return the energies of the tensors of these shapes, all in one unit near that of the largest coordinate."""
    # In float64 no square of a float32 in the unit range vanishes.
    exponent = torch.frexp(x.abs().max()).exponent if x.numel() else torch.zeros(())
    squares = x.double().mul_(power_of_two(-exponent)).square_()
    return [TensorEnergy(part) for part in torch.split(squares, [prod(shape) for shape in shapes])]


def find_layout(
    tensors: Sequence[TensorEnergy],
    shapes: Sequence[tuple[int, ...]],
    *,
    bits: float,
    block: int,
    detail: float,
    code: Code,
) -> Layout:
    """Return the layout that the vector's energies ask for at ``bits`` a coordinate.

    Parameters
    ----------
    tensors, shapes
        What ``tensor_energies`` returned, and the shapes that it was given.
    detail
        One of ``DETAILS``: at which share of the mean error a coordinate's energy is taken for lost, so that nothing is
        spent on telling where it is. More makes a smaller table.
    """
    dim = sum(tensor.squares.numel() for tensor in tensors)
    mean = sum(tensor.total for tensor in tensors) / max(dim, 1)
    water = max(mean * 2 ** (-2 * bits) * detail, 1e-300)
    models: list[Model] = []
    by_class: dict[int, float] = {}
    for tensor, shape in zip(tensors, shapes, strict=True):
        model, energies = _best_model(tensor, shape, water)
        models.append(model)
        for value, total in energies.items():
            by_class[value] = by_class.get(value, 0.0) + total
    values, counts = merge_counts(models, floor=ZERO // 2)
    of_classes = np.array([by_class.get(int(value), 0.0) for value in values])
    floor = _best_floor(values, counts, of_classes, bits * dim, code.ladder)
    sizes = pool_sizes(merge_counts(models, floor=floor)[1])
    last = sizes[-1] if sizes else 0
    plan = _pool_plan(sizes, block, raw_tail=raw_is_shorter(last, bits))
    return Layout(models, floor, sizes, plan, _share_left(counts, of_classes, bits, dim, code.ladder))


@dataclass(frozen=True)
class Draft:
    """A payload's body but for the coordinates themselves.

    Attributes
    ----------
    layout, table
        The pools, and what tells them.
    rates
        A pool's rate, in 1/4,096 of a bit.
    pooled, means
        The vector in the order of its pools, and the means of its blocks.
    code
        What the coordinates are sent in.
    error
        The expected squared error.
    """

    layout: Layout
    table: bytes
    rates: Sequence[int]
    pooled: Tensor
    means: Tensor
    code: Code
    error: float

    @property
    def has_means(self) -> bool:
        """Whether any block sends its mean."""
        return bool((self.means != 0).any())

    @property
    def num_coded(self) -> int:
        """How many coordinates are in pools with a rate."""
        sizes = zip(self.layout.sizes, self.rates, strict=True)
        return sum(size for size, rate in sizes if rate)

    def encode(self, rotation: Rotation, *, shift: int, unbiased: bool) -> bytes:
        """Return the body, each pool's rate moved by ``shift`` in 1/65,536 of a bit; a pool without bits stays so."""
        steps = -(-shift // RATE_STEP)
        rates = [min(max(rate + steps, 0), MAX_RATE // RATE_STEP) if rate else 0 for rate in self.rates]
        head = _PREFIX.pack(len(self.table), self.layout.floor, len(rates))
        head += self.table + np.array(rates, dtype="<u2").tobytes()
        plan = _at_rates(self.layout.plan, self.layout.sizes, rates)
        return head + encode_body(self.pooled, plan, self.means, rotation, self.code, unbiased=unbiased)


def draft_payload(x: Tensor, layout: Layout, *, room: int, code: Code) -> Draft | None:
    """Choose the pools' rates so that params and header aside all fits ``room`` bytes; None when it cannot."""
    pooled = x[pool_order(layout.models, floor=layout.floor, device=x.device)]
    means = block_means(pooled, layout.plan)
    table = pack_models(layout.models)
    side = len(table) + _RATE_BYTES * len(layout.sizes) + len(pack_means(means)) + SCALE_BYTES * layout.plan.num_blocks
    left = room - _PREFIX.size - side - RAW_BYTES * layout.plan.raw
    energies = _pool_energies(pooled, layout, means)
    sizes = np.array(layout.sizes, dtype=np.float64)

    pools = _pool_of_groups(layout.plan, layout.sizes)
    block_sizes = np.array([group.size for group in layout.plan.groups], dtype=np.int64)
    counts = np.array([group.count for group in layout.plan.groups], dtype=np.int64)

    def cost(rates: Floats) -> float:
        codes = RATE_STEP * np.floor(rates * (ONE_BIT // RATE_STEP)).astype(np.int64)
        return float((counts * code.bytes_each(block_sizes, codes[pools])).sum())

    if not layout.sizes or cost(np.zeros_like(energies)) > left:
        return None
    rates = fill(energies, sizes, left, code.ladder, cost=cost, steps=32)
    error = expected_error(energies, rates, code.ladder, least=_least_rates(sizes))
    return Draft(layout, table, _to_codes(rates), pooled, means, code, error)


def _least_rates(sizes: Floats) -> Floats:
    """Return the rates below which a pool's blocks cannot go: eight coordinates each."""
    return 8 / np.clip(sizes, MIN_BLOCK, 16384)


def decode_adaptive(
    body: memoryview, rotation: Rotation, params: EdenParams, *, dim: int, device: torch.device
) -> Tensor:
    """Undo ``encode_adaptive``; the table alone tells the pools' sizes, before anything of dim is allocated."""
    if len(body) < _PREFIX.size:
        raise InvalidParams(f"adaptive eden has at least {_PREFIX.size} bytes of body, not {len(body)}")
    table_bytes, floor, num_pools = _PREFIX.unpack(body[: _PREFIX.size])
    table_end = _PREFIX.size + table_bytes
    rates_end = table_end + _RATE_BYTES * num_pools
    if rates_end > len(body):
        raise InvalidParams(
            f"a table of {table_bytes} bytes and {num_pools} pools do not fit {len(body)} bytes of body"
        )
    models = unpack_models(body[_PREFIX.size : table_end], dim)
    if models is None:
        raise InvalidParams(f"the table of {table_bytes} bytes does not describe {dim} coordinates; reject the sender")
    sizes = pool_sizes(merge_counts(models, floor=floor)[1])
    codes = np.frombuffer(body[table_end:rates_end], dtype="<u2").tolist()
    last = sizes[-1] if sizes else 0
    if (
        len(sizes) != num_pools
        or max(codes, default=0) * RATE_STEP > MAX_RATE
        or params.raw not in (0, last % MIN_BLOCK)
    ):
        raise InvalidParams(
            f"adaptive eden has {num_pools} pools, rates {codes[:8]}…, raw {params.raw}; allowed: {len(sizes)} pools "
            f"as the table says, rates to {MAX_RATE // RATE_STEP}, raw 0 or {last % MIN_BLOCK}"
        )
    plan = _at_rates(_pool_plan(sizes, params.block, raw_tail=params.raw > 0), sizes, codes)
    pooled = decode_body(
        body[rates_end:], plan, rotation, params.code, has_means=params.has_means, dim=sum(sizes), device=device
    )
    out = torch.zeros(dim, dtype=torch.float32, device=device)
    out[pool_order(models, floor=floor, device=device)] = pooled
    return out


def _best_model(energy: TensorEnergy, shape: tuple[int, ...], water: float) -> tuple[Model, dict[int, float]]:
    """Return the model that costs least, table included, and the energy of each of its classes."""
    found = []
    for model in candidates(energy, shape):
        if is_small_enough(model, energy.squares.numel()):
            values, counts = model.counts()
            energies = model.class_energies(energy)
            found.append((bits_needed(counts, energies, water), model, values, energies))
    # No label takes less than a bit, so that most of the long tables need not be looked at.
    found.sort(key=lambda item: item[0] + len(item[1].labels))
    best, least = found[0], math.inf
    for item in found:
        if item[0] + len(item[1].labels) >= least:
            break
        cost = item[0] + label_bits(item[1].labels)
        if cost < least:
            best, least = item, cost
    return best[1], dict(zip(best[2].tolist(), best[3].tolist(), strict=True))


def _share_left(counts: Labels, energies: Floats, bits: float, dim: int, ladder: Ladder) -> float:
    if not len(counts):
        return 1.0
    rates = fill(energies, counts.astype(np.float64), bits * dim, ladder, steps=24)
    alike = energies.sum() * (1 / ladder.kept_share(np.array([bits])) - 1)
    return expected_error(energies, rates, ladder, least=_least_rates(counts.astype(np.float64))) / float(alike[0])


def _best_floor(values: Labels, counts: Labels, energies: Floats, bits: float, ladder: Ladder) -> int:
    """Return the class below which it does not pay to tell classes apart."""
    if not len(values):
        return 0
    best: tuple[float, int] | None = None
    for kept in sorted({*range(1, len(values) + 1, max(1, len(values) // 8)), len(values)}):
        sizes = np.append(counts[: kept - 1], counts[kept - 1 :].sum()).astype(np.float64)
        pooled = np.append(energies[: kept - 1], energies[kept - 1 :].sum())
        rates = fill(pooled, sizes, max(bits - _POOL_BITS * kept, 0.1 * bits), ladder, steps=16)
        error = expected_error(pooled, rates, ladder, least=_least_rates(sizes))
        if best is None or error < best[0]:
            best = error, int(values[kept - 1])
    return best[1] if best else 0


def _pool_plan(sizes: Sequence[int], block: int, *, raw_tail: bool) -> BlockPlan:
    groups: list[Group] = []
    start = raw = 0
    for index, size in enumerate(sizes):
        part = plan_blocks(size, block=block, raw_tail=raw_tail and index == len(sizes) - 1)
        groups += [replace(group, start=group.start + start, stop=group.stop + start) for group in part.groups]
        raw, start = part.raw, start + size
    return BlockPlan(tuple(groups), raw)


def _pool_of_groups(plan: BlockPlan, sizes: Sequence[int]) -> list[int]:
    """Return which pool each group of blocks belongs to."""
    starts = [group.start for group in plan.groups]
    return [int(pool) for pool in np.searchsorted(np.cumsum(sizes), starts, side="right")]


def _at_rates(plan: BlockPlan, sizes: Sequence[int], codes: Sequence[int]) -> BlockPlan:
    """Return the plan with each pool's rate at its blocks."""
    pools = zip(plan.groups, _pool_of_groups(plan, sizes), strict=True)
    return BlockPlan(tuple(replace(group, rate=RATE_STEP * codes[pool]) for group, pool in pools), plan.raw)


def _to_codes(rates: Floats) -> list[int]:
    return [int(rate) for rate in np.floor(rates * (ONE_BIT // RATE_STEP))]


def _pool_energies(pooled: Tensor, layout: Layout, means: Tensor) -> Floats:
    """Return the squared norm of each pool less its blocks' means; a raw tail costs nothing and has none."""
    totals = np.zeros(len(layout.sizes))
    np.add.at(totals, _pool_of_groups(layout.plan, layout.sizes), energies_left(pooled, layout.plan, means))
    if not np.isfinite(totals).all():
        raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
    return totals
