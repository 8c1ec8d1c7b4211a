"""The search for the trellis path that errs least: in numba for CPU tensors where that is installed, else in torch.

Both do the same float32 operations in the same order and find the same path.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcomp.kernels.eden_rows import is_compiled
from fedcomp.quantizers.trellis import branches, lanes, path_signs, register_sums

_PIECE = 2**15
"""Coordinates a thread takes at a time: two milliseconds' work with eight states."""

CELLS = 2048
"""Into so many cells the range of values is cut; of each parity at most two indices compete in one."""

REACH = 8.0
"""Values beyond it are taken to be in the last cell."""


@dataclass(frozen=True)
class Codebook:
    """Levels in increasing order, and what choosing one adds to the squared error; by index."""

    levels: tuple[float, ...]
    prices: tuple[float, ...]


@dataclass(frozen=True)
class SearchTables:
    """A codebook by parity: arrays of shape (2, ·), the shorter row padded.

    Attributes
    ----------
    levels, prices
        Of indices p, p + 2, p + 4, …; float32. Padding has a price that is never paid.
    first
        Shape (2, CELLS): the best such index at the cell's lower edge; in the cell it may also be the next one. int32.
    """

    levels: NDArray[np.float32]
    prices: NDArray[np.float32]
    first: NDArray[np.int32]


@lru_cache(maxsize=64)
def search_tables(codebook: Codebook) -> SearchTables:
    """Return a codebook as the search reads it."""
    width = (len(codebook.levels) + 1) // 2 + 1
    levels = np.full((2, width), 2 * REACH, dtype=np.float32)
    prices = np.full((2, width), 1e30, dtype=np.float32)
    first = np.empty((2, CELLS), dtype=np.int32)
    edges = np.arange(CELLS) * (2 * REACH / CELLS) - REACH
    for parity in (0, 1):
        count = len(codebook.levels[parity::2])
        levels[parity, :count] = codebook.levels[parity::2]
        prices[parity, :count] = codebook.prices[parity::2]
        errors = np.square(edges[:, None] - levels[parity, :count]) + prices[parity, :count]
        first[parity] = errors.argmin(axis=1)
    return SearchTables(levels, prices, first)


def find_path(z: Tensor, codebook: Codebook, *, states: int) -> Tensor:
    """Map rows of values to the indices whose levels, signed by the path, err least in all.

    Parameters
    ----------
    z
        Shape (m, n), float32, about N(0, 1).
    states
        Of the trellis; the time grows with them.

    Returns
    -------
    Tensor
        Indices, int16, shape (m, n).
    """
    tables = search_tables(codebook)
    return (
        _find_compiled(z, tables, states=states) if is_compiled(z.device) else _find_in_torch(z, tables, states=states)
    )


def signed_levels(indices: Tensor, levels: Tensor, *, states: int) -> Tensor:
    """Map rows of indices (m, n) to their levels, negated where the path says so; float32."""
    if not is_compiled(indices.device):
        return levels[indices.int()] * path_signs((indices & 1).to(torch.uint8), states)
    from fedcomp.kernels import cpu_viterbi
    from fedcomp.kernels.cpu import deal_out

    out = torch.empty(indices.shape, dtype=torch.float32)
    signs, parities = (np.array(sums, dtype=np.uint8) for sums in register_sums(states))
    rows, table, targets = indices.to(torch.int16).contiguous().numpy(), levels.numpy(), out.numpy()

    def work(part: slice) -> None:
        cpu_viterbi.signed_levels(rows[part], table, signs, parities, lanes(indices.shape[1]), targets[part])

    deal_out(out, work)
    return out


def _find_compiled(z: Tensor, tables: SearchTables, *, states: int) -> Tensor:
    from fedcomp.kernels.cpu import deal_out
    from fedcomp.kernels.cpu_viterbi import find

    indices = torch.empty(z.shape, dtype=torch.int16)
    rows, targets = z.contiguous().numpy(), indices.numpy()
    entered = np.array(branches(states), dtype=np.uint8)
    arrays = (tables.levels, tables.prices, tables.first.view(np.uint32), np.float32(REACH), entered, lanes(z.shape[1]))

    def work(part: slice) -> None:
        find(rows[part], *arrays, targets[part])

    deal_out(z, work, piece=_PIECE)
    return indices


def _find_in_torch(z: Tensor, tables: SearchTables, *, states: int) -> Tensor:
    m, n = z.shape
    count = lanes(n)
    steps = -(-n // count)
    padded = torch.nn.functional.pad(z, (0, steps * count - n)).view(m, steps, count)
    costs, picks = _branch_costs(padded, tables)
    entered = torch.tensor(branches(states), device=z.device)
    half = torch.arange(states, device=z.device) >> 1
    metric = torch.full((m, count, states), 1e30, device=z.device)
    metric[:, :, 0] = 0
    decisions = torch.empty((steps, m, count, states), dtype=torch.bool, device=z.device)
    for step in range(steps):
        cost = costs[:, step]
        without = metric[:, :, half] + cost[:, :, entered[:, 0]]
        with_oldest = metric[:, :, half + states // 2] + cost[:, :, entered[:, 1]]
        decisions[step] = with_oldest < without
        metric = torch.minimum(without, with_oldest)
    state = metric.argmin(dim=2, keepdim=True)
    indices = torch.empty((m, steps, count), dtype=torch.int16, device=z.device)
    for step in range(steps - 1, -1, -1):
        oldest = decisions[step].gather(2, state).long()
        branch = entered[state, oldest]
        indices[:, step] = (2 * picks[:, step].gather(2, branch) + (branch >> 1)).squeeze(2).to(torch.int16)
        state = (state >> 1) + states // 2 * oldest
    return indices.view(m, steps * count)[:, :n].contiguous()


def _branch_costs(z: Tensor, tables: SearchTables) -> tuple[Tensor, Tensor]:
    """Return the least price of each branch (2·parity + sign bit) at each value, and which index has it; (…, 4)."""
    costs, picks = [], []
    for parity in (0, 1):
        levels = torch.from_numpy(tables.levels[parity]).to(z.device)
        prices = torch.from_numpy(tables.prices[parity]).to(z.device)
        firsts = torch.from_numpy(tables.first[parity]).to(z.device)
        for value in (z, -z):
            cell = ((value + REACH) * (CELLS / (2 * REACH))).nan_to_num(0.0).clamp(0, CELLS - 1).int()
            first = firsts[cell].long()
            near = (value - levels[first]) ** 2 + prices[first]
            far = (value - levels[first + 1]) ** 2 + prices[first + 1]
            costs.append(torch.minimum(near, far))
            picks.append(first + (far < near))
    return torch.stack(costs, dim=-1), torch.stack(picks, dim=-1)
