"""The randomized Hadamard rotation of blocks.

One round maps a block x of n = 2^k coordinates to H·D·x, D a diagonal of random signs and H the orthonormal Hadamard
matrix. Two rounds stand in for a uniformly random rotation; one is visibly biased on sparse vectors.

Only additions, subtractions and multiplications by powers of two (for an even number of rounds) are used, in a fixed
order, so a rotation gives the same bits on every machine and is untouched by autocast or reduced-precision matmuls.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedcomp.kernels.seed_words import rademacher_signs


def rotation_signs(seed: int, size: int, *, rounds: int, device: torch.device) -> Tensor:
    """Return the signs of ``rounds`` rounds for blocks of up to ``size`` coordinates; float32, shape (rounds, size).

    A smaller block uses the first signs of each row.
    """
    return torch.stack([rademacher_signs(seed, size, rotation_round=index, device=device) for index in range(rounds)])


def rotate(blocks: Tensor, signs: Tensor) -> Tensor:
    """Map blocks of shape (m, n), n a power of two, to their rotation; ‖·‖ of each row is kept.

    ``signs`` has shape (rounds, ≥ n). Cost: rounds·log2(n) additions a coordinate.
    """
    n = blocks.shape[1]
    for row in signs[:, :n]:
        blocks = _hadamard(blocks * row)
    return blocks * _scale(n, len(signs))


def unrotate(blocks: Tensor, signs: Tensor) -> Tensor:
    """Undo ``rotate`` with the same signs."""
    n = blocks.shape[1]
    for row in reversed(signs[:, :n]):
        blocks = _hadamard(blocks) * row
    return blocks * _scale(n, len(signs))


def _scale(n: int, rounds: int) -> float:
    # One factor for all rounds: n^(-rounds/2) is a power of two whenever rounds is even.
    return math.pow(n, -rounds / 2)


def _hadamard(blocks: Tensor) -> Tensor:
    """Apply the unnormalised Hadamard matrix to each row.

    H of order a·b is H_a ⊗ H_b: with a row seen as an a×b matrix, butterflies run down the columns, where every inner
    loop is contiguous, then again on the transpose.
    """
    m, n = blocks.shape
    log_n = n.bit_length() - 1
    a = 1 << (log_n // 2)
    b = n // a
    columns = _butterflies(blocks.reshape(m, a, b))
    rows = _butterflies(columns.transpose(1, 2).contiguous())
    return rows.transpose(1, 2).reshape(m, n)


def _butterflies(x: Tensor) -> Tensor:
    """Apply the unnormalised Hadamard matrix along the middle axis of a contiguous (m, a, b) tensor."""
    m, a, b = x.shape
    span = 1
    while span < a:
        pairs = x.view(m, a // (2 * span), 2, span * b)
        x = torch.empty_like(x)
        out = x.view(pairs.shape)
        torch.add(pairs[:, :, 0], pairs[:, :, 1], out=out[:, :, 0])
        torch.sub(pairs[:, :, 0], pairs[:, :, 1], out=out[:, :, 1])
        span *= 2
    return x
