"""How much one client's update counts in the mean."""

from __future__ import annotations

import math

from fedcomp.aggregation import check_weight
from fedcomp.errors import ConfigError

WEIGHTS = ("examples", "variance", "uniform")
MAX_VNMSE = 100.0
"""A reported vNMSE above this, or none, counts as this much."""


def aggregation_weight(kind: str, *, examples: float, vnmse: float | None, chance: float) -> float:
    """Return a client's weight: ``examples``, ``examples/(1+vnmse)`` or 1, over its relative chance of being drawn.

    ``variance``: v is the vNMSE ‖x̂−x‖²/‖x‖² that the client reports of its own encoding; it counts as at least 0 and at
    most 100. A lie gains a client no more than the weight of its examples, which it has without ``variance``.

    What it optimises: let updates x spread about their mean with the variance σ². A decoded x̂ then has the variance
    σ² + v·‖x‖², and a mean has least variance with weights in inverse proportion. For σ² = ‖x‖², updates that spread as
    much as they are long, that is 1/(1+v).

    Why it adds no bias of its own for a rotated scheme whose scale is ``unbiased``: reflect the space about the line of
    x. A uniform rotation is as likely as the reflected one, which turns the error x̂−x around and leaves its length, so
    v, so the weight w, as they are. So E[w·x̂] has no part off the line of x, and with ⟨x̂, x⟩ = ‖x‖², which holds for
    each payload, it is E[w]·x. Clients alike in examples and budget have the same E[w] and count the same. Clients with
    fewer bits count less on purpose: the mean leans towards those with more. For schemes that don't rotate (``qsgd``,
    ``randk``, ``terngrad``) v may go along with the error's direction, and the mean is then slightly biased.

    Parameters
    ----------
    kind
        One of ``WEIGHTS``.
    examples
        Number of training examples, in [0, 2**53].
    vnmse
        As reported; NaN, or None when it reports none, counts as 100. Used by ``variance`` only.
    chance
        Relative chance of being drawn, above 0, as ``samplers.draw`` returns it.

    Raises
    ------
    ConfigError
        When ``kind`` is unknown or ``chance`` is not a positive number.
    InvalidWeight
        When ``examples``, or the weight that comes out, is not a number in [0, 2**53].
    """
    if kind not in WEIGHTS:
        raise ConfigError(f"weights is {kind!r}; allowed: {', '.join(WEIGHTS)}")
    if not (math.isfinite(chance) and chance > 0):
        raise ConfigError(f"chance is {chance}; allowed: finite numbers above 0, 1 when all are equally likely")
    weight = check_weight(examples)
    if kind == "uniform":
        weight = 1.0
    elif kind == "variance":
        weight /= 1 + _clamped(vnmse)
    return check_weight(weight / chance)


def _clamped(vnmse: float | None) -> float:
    if vnmse is None or math.isnan(vnmse):
        return MAX_VNMSE
    return min(max(vnmse, 0.0), MAX_VNMSE)
