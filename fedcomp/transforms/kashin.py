"""Kashin coefficients: more coefficients than coordinates, none of them large.

U is the first n rows of the rotation's inverse of order N = expansion·n, a tight frame: U Uᵀ = I. A vector x has many
representations x = U a. The shortest, Uᵀx, looks normal, with a few coefficients four times the root mean square; a
Kashin representation has all |a| ≤ K·‖x‖/√N with a constant K, so that few levels quantize it well.

Lyubarskii, Vershynin, "Uncertainty principles and vector quantization", IEEE Trans. Inf. Theory 56, 2010 (arXiv
math/0611343): clip the coefficients and go on with what that leaves of x. Used on updates by Caldas, Konečný, McMahan,
Talwalkar, "Expanding the reach of federated learning by reducing client resource requirements", 2018 (arXiv
1812.07210). There the level shrinks from step to step and every clipped part is kept. Here the level rises to a bound,
and what is beyond it is pulled back in part: a relaxed Douglas–Rachford splitting (Eckstein, Bertsekas, Math.
Programming 55, 1992) between the cube |a| ≤ level and the representations of x. After six steps of each, with two
coefficients a coordinate, K is 1.61 instead of 1.91.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fedcomp.kernels.eden_rows import rotate_rows, unrotate_rows

ITERATIONS = {2: 6, 4: 5, 8: 4}
"""How often coefficients are clipped before the last time, by expansion."""

LEVELS = {2: 1.6, 4: 1.4, 8: 1.34}
"""The level that clipping rises to, in units of ‖x‖/√N: about the least that so many iterations can reach."""

# Found by search for the least error of stochastic rounding at 1 to 3 bits. A tenth more or less of these costs less
# than 1 % at expansion 2, up to 6 % at 4 and 18 % at 8; of the level, 30 to 140 %.
_STEP, _PULL, _SHED = 1.55, 0.65, 0.775
_FIRST_GAP, _GAP_RATIO = 0.5, 0.45


def kashin_coefficients(blocks: Tensor, signs: Tensor, *, expansion: int) -> Tensor:
    """Map blocks to Kashin coefficients, from which ``synthesize`` gives the blocks again.

    Guarantee: U a = x to float32 precision, always: the last part is added unclipped, so that nothing is lost. The
    bound is found, not proved: max|a|·√N/‖x‖ is about 1.61, 1.42, 1.37 for expansion 2, 4, 8 on any vector (rotated
    only, 4.1); blocks of 512 to 1024 coefficients scatter, and one in a hundred is a fifth above. Cost: two rotations
    of N for each iteration and three more.

    Parameters
    ----------
    blocks
        Shape (m, n), n a power of two; of magnitudes from 1e-30 to 1e25 or zero.
    signs
        Two rounds of them, shape (2, ≥ N).
    expansion
        N/n: 2, 4 or 8.

    Returns
    -------
    Tensor
        Shape (m, N), in units of ``blocks``.
    """
    rms = torch.sqrt(blocks.double().square().sum(dim=1, keepdim=True) / (blocks.shape[1] * expansion))
    bound = (LEVELS[expansion] * rms).float()
    reached = _analyze(blocks, signs, expansion)
    for iteration in range(ITERATIONS[expansion]):
        level = bound * (1 - _FIRST_GAP * math.pow(_GAP_RATIO, iteration))
        clipped = reached.clamp(-level, level)
        excess = reached - clipped
        missing = blocks - synthesize(clipped - _PULL * excess, signs, expansion=expansion)
        reached = clipped - _SHED * excess + _STEP * _analyze(missing, signs, expansion)
    clipped = reached.clamp(-bound, bound)
    return clipped + _analyze(blocks - synthesize(clipped, signs, expansion=expansion), signs, expansion)


def synthesize(coefficients: Tensor, signs: Tensor, *, expansion: int) -> Tensor:
    """Map coefficients a of shape (m, N) to U a of shape (m, n); the decoder's half. Cost: one rotation of N."""
    return unrotate_rows(coefficients, signs)[:, : coefficients.shape[1] // expansion]


def _analyze(blocks: Tensor, signs: Tensor, expansion: int) -> Tensor:
    """Map blocks x of shape (m, n) to Uᵀx of shape (m, N)."""
    n = blocks.shape[1]
    return rotate_rows(torch.nn.functional.pad(blocks, (0, n * expansion - n)), signs)
