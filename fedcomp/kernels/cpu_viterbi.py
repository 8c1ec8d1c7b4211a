"""The trellis search on rows that lie in a core's second cache, its inner loops along the lanes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedcomp.kernels.cpu_jit import jit

Floats = NDArray[np.float32]
Shorts = NDArray[np.int16]
Bytes = NDArray[np.uint8]
Places = NDArray[np.uint32]


@jit
def _price_branch(
    z: Floats,
    sign: np.float32,
    levels: Floats,
    prices: Floats,
    first: Places,
    reach: np.float32,
    cost: Floats,
    pick: Places,
) -> None:
    """Write the least price of one parity's indices at each value times ``sign``, and which of them it is.

    Beyond the values, at the end of the last step, they count as zero.
    """
    last = np.float32(first.size - 1)
    per_unit = np.float32(first.size) / (np.float32(2) * reach)
    for place in range(z.size):
        value = z[place] * sign
        cell = (value + reach) * per_unit
        # In this form what is not a number is in the first cell.
        cell = cell if cell > np.float32(0) else np.float32(0)
        cell = cell if cell < last else last
        # Unsigned places: of signed ones it would be asked whether they count from the end.
        near = first[np.uint32(cell)]
        far = near + np.uint32(1)
        to_near, to_far = value - levels[near], value - levels[far]
        near_cost, far_cost = to_near * to_near + prices[near], to_far * to_far + prices[far]
        cost[place] = far_cost if far_cost < near_cost else near_cost
        pick[place] = far if far_cost < near_cost else near


@jit
def _walk(costs: Floats, entered: Bytes, lanes: int, decisions: Bytes) -> Floats:
    """Return each state's least error at the end, (states, lanes).

    Writes to ``decisions`` (states, n) which of its two predecessors a state has.
    """
    states = len(entered)
    half = states // 2
    metric = np.full((states, lanes), np.float32(1e30), dtype=np.float32)
    following = np.empty((states, lanes), dtype=np.float32)
    metric[0] = np.float32(0)
    for step in range(costs.shape[1] // lanes):
        start = step * lanes
        for state in range(states):
            without, with_oldest = metric[state >> 1], metric[(state >> 1) + half]
            cost_without = costs[entered[state, 0], start : start + lanes]
            cost_with = costs[entered[state, 1], start : start + lanes]
            target, chosen = following[state], decisions[state, start : start + lanes]
            for lane in range(lanes):
                a = without[lane] + cost_without[lane]
                b = with_oldest[lane] + cost_with[lane]
                target[lane] = min(a, b)
                chosen[lane] = b < a
        metric, following = following, metric
    return metric


@jit
def _trace_back(metric: Floats, entered: Bytes, lanes: int, decisions: Bytes, picks: Places, indices: Shorts) -> None:
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
            oldest = decisions[state, place]
            branch = entered[state, oldest]
            if place < len(indices):
                indices[place] = 2 * picks[branch, place] + (branch >> 1)
            at[lane] = (state >> 1) + half * oldest


@jit
def find(
    z: Floats,
    levels: Floats,
    prices: Floats,
    first: Places,
    reach: np.float32,
    entered: Bytes,
    lanes: int,
    indices: Shorts,
) -> None:
    """Write the indices of the best path through each row of ``z`` (m, n)."""
    m, n = z.shape
    length = -(-n // lanes) * lanes
    costs = np.empty((4, length), dtype=np.float32)
    picks = np.empty((4, length), dtype=np.uint32)
    decisions = np.empty((len(entered), length), dtype=np.uint8)
    values = np.zeros(length, dtype=np.float32)
    for row in range(m):
        values[:n] = z[row]
        for parity in range(2):
            for bit in range(2):
                branch, sign = 2 * parity + bit, np.float32(1 - 2 * bit)
                tables = levels[parity], prices[parity], first[parity]
                _price_branch(values, sign, tables[0], tables[1], tables[2], reach, costs[branch], picks[branch])
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
