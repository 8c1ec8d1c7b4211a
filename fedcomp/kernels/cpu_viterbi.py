"""The trellis search on rows that lie in a core's second cache, its inner loops along the lanes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.kernels.cpu_jit import jit

Floats = NDArray[np.float32]
Shorts = NDArray[np.int16]
Bytes = NDArray[np.uint8]


@jit
def _price_branches(
    z: Floats, levels: Floats, prices: Floats, first: Shorts, reach: np.float32, costs: Floats, picks: Shorts
) -> None:
    """Write the least price of each branch (2·parity + sign bit) at each value, and which index of that parity it has.

    costs and picks have shape (4, ≥ n); beyond n the values count as zero.
    """
    cells = first.shape[1]
    per_unit = np.float32(cells) / (np.float32(2) * reach)
    for parity in range(2):
        for sign in range(2):
            branch = 2 * parity + sign
            for place in range(costs.shape[1]):
                value = z[place] if place < len(z) else np.float32(0)
                if sign == 1:
                    value = -value
                cell = int(min(max((value + reach) * per_unit, np.float32(0)), np.float32(cells - 1)))
                near_index = first[parity, cell]
                near = (value - levels[parity, near_index]) ** 2 + prices[parity, near_index]
                far = (value - levels[parity, near_index + 1]) ** 2 + prices[parity, near_index + 1]
                costs[branch, place] = min(near, far)
                picks[branch, place] = near_index + (far < near)


@jit
def _walk(costs: Floats, entered: Bytes, lanes: int, decisions: Bytes) -> Floats:
    """Return each state's least error at the end, (states, lanes).

    Writes to ``decisions`` (⌈states/8⌉, n), bit by state, which of its two predecessors a state has.
    """
    states = len(entered)
    metric = np.full((states, lanes), np.float32(1e30), dtype=np.float32)
    following = np.empty((states, lanes), dtype=np.float32)
    metric[0] = np.float32(0)
    half = states // 2
    for step in range(costs.shape[1] // lanes):
        start = step * lanes
        for group in range(decisions.shape[0]):
            chosen = decisions[group, start : start + lanes]
            for bit in range(min(states, 8)):
                state = 8 * group + bit
                without, with_oldest = metric[state >> 1], metric[(state >> 1) + half]
                cost_without = costs[entered[state, 0], start : start + lanes]
                cost_with = costs[entered[state, 1], start : start + lanes]
                target = following[state]
                flag = np.uint8(1 << bit)
                for lane in range(lanes):
                    a = without[lane] + cost_without[lane]
                    b = with_oldest[lane] + cost_with[lane]
                    target[lane] = b if b < a else a
                    before = chosen[lane] if bit else np.uint8(0)
                    chosen[lane] = before | flag if b < a else before
        metric, following = following, metric
    return metric


@jit
def _trace_back(metric: Floats, entered: Bytes, lanes: int, decisions: Bytes, picks: Shorts, indices: Shorts) -> None:
    """Write the indices on the best path of each lane."""
    half = metric.shape[0] // 2
    at = np.zeros(lanes, dtype=np.int64)
    for lane in range(lanes):
        for state in range(1, metric.shape[0]):
            if metric[state, lane] < metric[at[lane], lane]:
                at[lane] = state
    for step in range(picks.shape[1] // lanes - 1, -1, -1):
        for lane in range(lanes):
            place, state = step * lanes + lane, at[lane]
            oldest = (decisions[state >> 3, place] >> (state & 7)) & 1
            branch = entered[state, oldest]
            if place < len(indices):
                indices[place] = 2 * picks[branch, place] + (branch >> 1)
            at[lane] = (state >> 1) + half * oldest


@jit
def find(
    z: Floats,
    levels: Floats,
    prices: Floats,
    first: Shorts,
    reach: np.float32,
    entered: Bytes,
    lanes: int,
    indices: Shorts,
) -> None:
    """Write the indices of the best path through each row of ``z`` (m, n)."""
    m, n = z.shape
    length = -(-n // lanes) * lanes
    costs = np.empty((4, length), dtype=np.float32)
    picks = np.empty((4, length), dtype=np.int16)
    decisions = np.empty((-(-len(entered) // 8), length), dtype=np.uint8)
    for row in range(m):
        _price_branches(z[row], levels, prices, first, reach, costs, picks)
        metric = _walk(costs, entered, lanes, decisions)
        _trace_back(metric, entered, lanes, decisions, picks, indices[row])


@jit
def signed_levels(indices: Shorts, levels: Floats, sign_of: Bytes, parity_of: Bytes, lanes: int, out: Floats) -> None:
    """Write the levels of rows of indices (m, n), negated where the path says so.

    ``sign_of`` has the sign bit of each state; its register takes in the index's parity plus ``parity_of`` the state.
    """
    m, n = indices.shape
    mask = len(sign_of) - 1
    states = np.empty(lanes, dtype=np.int64)
    for row in range(m):
        states[:] = 0
        for start in range(0, n, lanes):
            for lane in range(min(lanes, n - start)):
                index, state = indices[row, start + lane], states[lane]
                level = levels[index]
                out[row, start + lane] = -level if sign_of[state] else level
                states[lane] = ((state << 1) | ((index & 1) ^ parity_of[state])) & mask
