"""What changes with the number of clients in a round: the rate that fits it, and the number itself."""

from __future__ import annotations

import math
from typing import Literal, get_args

from fedcomp.errors import ConfigError

Rule = Literal["none", "linear", "sqrt"]


def scaled_rate(rate: float, *, cohort: int, base: int, rule: Rule) -> float:
    """Map a learning rate tuned for cohorts of ``base`` clients to one for ``cohort`` clients.

    ``linear``: rate · cohort / base (Goyal et al., "Accurate, large minibatch SGD", 2017, section 2.1). ``sqrt``: rate
    times √(cohort / base), which keeps the variance of a step (Krizhevsky, "One weird trick for parallelizing
    convolutional neural networks", 2014). ``none``: the rate itself; right where the cohort grows in place of a decay.

    Raises
    ------
    ConfigError
        For an unknown rule, or when a number of clients is below 1.

    >>> scaled_rate(0.1, cohort=40, base=10, rule="sqrt")
    0.2
    """
    for name, value in (("cohort", cohort), ("base", base)):
        if value < 1:
            raise ConfigError(f"{name} is {value}; allowed: integers from 1: give the number of clients in a round")
    match rule:
        case "none":
            return rate
        case "linear":
            return rate * cohort / base
        case "sqrt":
            return rate * math.sqrt(cohort / base)
    raise ConfigError(f"scaling rule is {rule!r}; allowed: {', '.join(get_args(Rule))}")


def grown(base: int, factor: float) -> int:
    """Map a size and a schedule's factor to the size of this round: to the nearest integer, halves up, at least 1.

    Growing the cohort or the batch at a constant rate has the effect of a decaying rate, with less noise: Smith,
    Kindermans, Ying, Le, "Don't decay the learning rate, increase the batch size", ICLR 2018.

    Raises
    ------
    ConfigError
        When the base is below 1 (a setting of 0 that stands for all clients can't grow), or the factor negative or
        not finite.

    >>> grown(10, 1.25)
    13
    """
    if base < 1:
        raise ConfigError(f"base is {base}; allowed: integers from 1: give the size that is to grow")
    if not 0 <= factor < math.inf:
        raise ConfigError(f"factor is {factor}; allowed: finite numbers from 0: give what a schedule returned")
    return max(1, math.floor(base * factor + 0.5))
