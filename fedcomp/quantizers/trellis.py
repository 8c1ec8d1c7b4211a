"""Trellis-coded quantization: which of two mirrored codebooks a coordinate has depends on those before it.

Marcellin and Fischer, "Trellis coded quantization of memoryless and Gauss-Markov sources", IEEE Trans. Commun. 38,
1990, with the convolutional codes of Ungerboeck, "Trellis-coded modulation with redundant signal sets", IEEE Commun.
Mag. 25, 1987, table I. A coordinate's index k says its level; the parities of the indices drive a shift register, and a
sum of its bits says whether the level or its negative is meant. A level and a sign that lie in the finer union of both
codebooks can so be sent at the price of one codebook; the encoder looks for the path that errs least (Viterbi).

Everything that decoding depends on is integers: with p the parities as a polynomial in the delay D over GF(2), the
register's input is u = p/h0 and the sign bit is h1·u.

A row of n coordinates is cut into max(1, n // 1024) interleaved lanes, each with a path of its own that starts in state
zero: a delay of one step is a shift by that many coordinates, so that lanes run side by side.
"""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor

STEPS = 1024
"""The least number of coordinates in a lane, where a row has more than one."""

_TAPS = {
    4: (0o5, 0o2),
    8: (0o13, 0o4),
    16: (0o23, 0o4),
    32: (0o45, 0o10),
    64: (0o103, 0o24),
    128: (0o235, 0o126),
    256: (0o515, 0o362),
}
STATES = tuple(_TAPS)
"""How many states the register may have."""


def lanes(length: int) -> int:
    """Return how many interleaved paths a row of ``length`` coordinates has."""
    return max(1, length // STEPS)


def path_signs(parities: Tensor, states: int) -> Tensor:
    """Map the parities of a row's indices, uint8 of shape (m, n), to the signs of its levels, ±1 float32.

    h0^(2^i) is 1 plus its terms delayed 2^i-fold, and is 1 up to delays of 2^i steps; so 1/h0 is the product of
    h0^(2^i) over all i with 2^i below the number of steps: a few shifts of the whole row.
    """
    h0, h1 = _TAPS[states]
    register = parities.clone()
    step = lanes(parities.shape[1])
    delay = 1
    while delay * step < parities.shape[1]:
        before = register.clone()
        for term in _delays(h0):
            _add_delayed(register, before, term * delay * step)
        delay *= 2
    bits = torch.zeros_like(register)
    for term in _delays(h1):
        _add_delayed(bits, register, term * step)
    return 1.0 - 2.0 * bits


@cache
def branches(states: int) -> tuple[tuple[int, int], ...]:
    """Return the trellis as a search walks it: what leads into each state.

    State s is entered from s >> 1 and from (s >> 1) + states/2. Given for each of the two is 2·parity + sign bit: which
    indices lead there, and whether they mean their level (0) or its negative (1).
    """
    h0, h1 = _TAPS[states]
    return tuple(
        (_branch(state, state >> 1, h0, h1), _branch(state, (state >> 1) + states // 2, h0, h1))
        for state in range(states)
    )


def register_sums(states: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return by state the sign bit, and what is added to the next index's parity to give the register's input."""
    h0, h1 = _TAPS[states]
    signs = tuple((state & (h1 >> 1)).bit_count() % 2 for state in range(states))
    return signs, tuple((state & (h0 >> 1)).bit_count() % 2 for state in range(states))


def _branch(state: int, before: int, h0: int, h1: int) -> int:
    parity = ((state & 1) + (before & (h0 >> 1)).bit_count()) % 2
    return 2 * parity + (before & (h1 >> 1)).bit_count() % 2


def _delays(polynomial: int) -> list[int]:
    return [delay for delay in range(1, polynomial.bit_length()) if polynomial >> delay & 1]


def _add_delayed(into: Tensor, row: Tensor, places: int) -> None:
    if places < row.shape[1]:
        into[:, places:] ^= row[:, : row.shape[1] - places]
