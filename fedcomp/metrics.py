"""How wrong an estimate is: vNMSE, NMSE and the T statistic of unbiasedness."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor


def vnmse(estimate: Tensor, x: Tensor) -> float:
    """Return ‖x̂−x‖²/‖x‖² of one vector; 0 when both are zero, infinite when only ``x`` is."""
    error = float((estimate.double() - x.double()).square().sum())
    energy = float(x.double().square().sum())
    return error / energy if energy else (0.0 if error == 0.0 else float("inf"))


def nmse(mean_estimate: Tensor, vectors: Sequence[Tensor]) -> float:
    """Return ‖mean x̂ − mean x‖² / mean ‖x‖² of the estimated mean of n vectors."""
    total = vectors[0].double().clone()
    energy = float(vectors[0].double().square().sum())
    for vector in vectors[1:]:
        total += vector.double()
        energy += float(vector.double().square().sum())
    n = len(vectors)
    return float((mean_estimate.double() - total / n).square().sum()) / (energy / n)


def t_statistic(decodings: Sequence[Tensor], x: Tensor) -> float:
    """Return R·‖mean of R decodings − x‖² / (vNMSE·‖x‖²).

    1 when the R errors are unbiased and independent or all zero, R when they are all the same error.
    """
    mean = decodings[0].double().clone()
    for decoding in decodings[1:]:
        mean += decoding.double()
    mean /= len(decodings)
    average = sum(float((decoding.double() - x.double()).square().sum()) for decoding in decodings) / len(decodings)
    if average == 0:
        return 1.0
    return len(decodings) * float((mean - x.double()).square().sum()) / average
