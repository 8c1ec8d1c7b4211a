"""Schedules by spec string: ``"cosine:restarts=3,growth=2,warmup=5"``."""

from __future__ import annotations

from collections.abc import Callable

from fedcomp.config import Spec, integer_option, parse_spec, reject_unknown
from fedcomp.errors import ConfigError
from fedcomp.optim.schedules import Constant, Cosine, Exponential, Linear, Schedule, Step

MAX_ROUNDS = 10**6
MAX_RESTARTS = 100


def parse_schedule(text: str, *, key: str) -> Schedule:
    """Map a spec string to a schedule.

    ======================================  ======================================================================
    ``constant``                            1 in every round
    ``linear:end=0.1``                      in equal steps from 1 to ``end`` (0 to 1000)
    ``step:every=10,factor=0.5``            times ``factor`` (0.001 to 1000) every ``every`` rounds
    ``exponential:factor=0.97``             times ``factor`` (0.001 to 1000) every round
    ``cosine:end=0.01,restarts=0,growth=1``  half a cosine from 1 to ``end`` (0 to 1000), with warm restarts (0 to
                                            100), each cycle ``growth`` (1 to 10) times as long as the one before
    ======================================  ======================================================================

    The values shown are the defaults. Each takes ``warmup=N`` rounds too. Factors and ends above 1 grow: that is for
    cohorts and batches (Smith et al., "Don't decay the learning rate, increase the batch size", ICLR 2018).

    Parameters
    ----------
    text
        The spec string.
    key
        The setting it is the value of, for messages.

    Raises
    ------
    ConfigError
        Naming the key, its value and what is allowed.

    >>> parse_schedule("step:every=2,factor=0.5", key="server-schedule").factor(5, 10)
    0.25
    """
    try:
        spec = parse_spec(text)
        if spec.name not in _KINDS:
            raise ConfigError(f"unknown schedule {spec.name!r}; allowed: {', '.join(_KINDS)}")
        options, build = _KINDS[spec.name]
        reject_unknown(spec.name, spec.options, {*options, "warmup"})
        return build(spec, integer_option(spec, "warmup", 0, low=0, high=MAX_ROUNDS))
    except ConfigError as error:
        raise ConfigError(f"{key} is {text!r}: {error}") from error


def _linear(spec: Spec, warmup: int) -> Schedule:
    return Linear(warmup, end=_number(spec, "end", Linear.end, low=0.0, high=1000.0))


def _step(spec: Spec, warmup: int) -> Schedule:
    every = integer_option(spec, "every", Step.every, low=1, high=MAX_ROUNDS)
    return Step(warmup, every, _number(spec, "factor", Step.factor_each, low=0.001, high=1000.0))


def _exponential(spec: Spec, warmup: int) -> Schedule:
    return Exponential(warmup, _number(spec, "factor", Exponential.factor_each, low=0.001, high=1000.0))


def _cosine(spec: Spec, warmup: int) -> Schedule:
    end = _number(spec, "end", Cosine.end, low=0.0, high=1000.0)
    restarts = integer_option(spec, "restarts", Cosine.restarts, low=0, high=MAX_RESTARTS)
    return Cosine(warmup, end, restarts, _number(spec, "growth", Cosine.growth, low=1.0, high=10.0))


def _number(spec: Spec, key: str, default: float, *, low: float, high: float) -> float:
    value = spec.options.get(key, default)
    if isinstance(value, bool | str) or not low <= value <= high:
        raise ConfigError(f"{spec.name}: {key} is {value!r}; allowed: numbers from {low:g} to {high:g}")
    return float(value)


_KINDS: dict[str, tuple[tuple[str, ...], Callable[[Spec, int], Schedule]]] = {
    "constant": ((), lambda _, warmup: Constant(warmup)),
    "linear": (("end",), _linear),
    "step": (("every", "factor"), _step),
    "exponential": (("factor",), _exponential),
    "cosine": (("end", "restarts", "growth"), _cosine),
}

SCHEDULES = tuple(_KINDS)
"""The names of all schedules."""
