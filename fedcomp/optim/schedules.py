"""Schedules over rounds: a factor for each round, which multiplies a rate, a cohort size or a batch size.

Rounds count from 1. ``warmup=N`` raises the factor from 1/N in round 1 to 1 in round N (Goyal et al., "Accurate, large
minibatch SGD", 2017, section 2.2); the schedule itself begins with a factor of 1 in round N, or in round 1 without
warm-up, and where it speaks of an end, that is in round ``num_rounds``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from fedcomp.errors import ConfigError

LARGEST = 1e6
"""No factor is above this, however long a run that grows goes on."""


@dataclass(frozen=True)
class Schedule(ABC):
    """Maps a round to a factor.

    Attributes
    ----------
    warmup
        Rounds until the factor is 1; with 0 and 1 it is 1 from the start.
    """

    warmup: int = 0

    def factor(self, round_index: int, num_rounds: int) -> float:
        """Return what multiplies the base value in a round: from 0 to 1e6, always finite.

        Parameters
        ----------
        round_index
            Counts from 1. After ``num_rounds``, which a resumed run may see, schedules with an end stay there.
        num_rounds
            Rounds of the whole run.

        Raises
        ------
        ConfigError
            When one of the two is below 1.
        """
        start = self._start(round_index, num_rounds)
        if round_index < start:
            return round_index / start
        return min(self._value(round_index - start, max(num_rounds - start, 0)), LARGEST)

    def restarts_at(self, round_index: int, num_rounds: int) -> bool:
        """Return whether the factor jumps back to 1 in this round, so that moments of an optimizer are to be reset."""
        start = self._start(round_index, num_rounds)
        return round_index > start and self._restarts(round_index - start, num_rounds - start)

    def _start(self, round_index: int, num_rounds: int) -> int:
        for name, value in (("round_index", round_index), ("num_rounds", num_rounds)):
            if value < 1:
                raise ConfigError(f"{name} is {value}; allowed: integers from 1, as rounds count from 1")
        return max(self.warmup, 1)

    @abstractmethod
    def _value(self, position: int, last: int) -> float:
        """Return the factor ``position`` rounds after the schedule's first; ``last`` is where its end is."""

    def _restarts(self, position: int, last: int) -> bool:
        return False


@dataclass(frozen=True)
class Constant(Schedule):
    """1 in every round."""

    def _value(self, position: int, last: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Linear(Schedule):
    """In equal steps from 1 to ``end``."""

    end: float = 0.1

    def _value(self, position: int, last: int) -> float:
        return 1.0 + (self.end - 1.0) * _share(position, last)


@dataclass(frozen=True)
class Step(Schedule):
    """Multiplied by ``factor_each`` every ``every`` rounds."""

    every: int = 10
    factor_each: float = 0.5

    def _value(self, position: int, last: int) -> float:
        return _power(self.factor_each, position // self.every)


@dataclass(frozen=True)
class Exponential(Schedule):
    """Multiplied by ``factor_each`` every round."""

    factor_each: float = 0.97

    def _value(self, position: int, last: int) -> float:
        return _power(self.factor_each, position)


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from 1 to ``end``, and again from 1 after each warm restart.

    The rounds are cut into ``restarts`` + 1 cycles, each ``growth`` times as long as the one before (to whole rounds; a
    cycle too short for a round is left out). Every cycle has 1 in its first round and ``end`` in its last.
    Source: Loshchilov & Hutter, "SGDR: stochastic gradient descent with warm restarts", ICLR 2017, eq. 5.
    """

    end: float = 0.01
    restarts: int = 0
    growth: float = 1.0

    def _value(self, position: int, last: int) -> float:
        starts = [*self._starts(last), last + 1]
        place = min(position, last)
        first = max(start for start in starts if start <= place)
        after = min(start for start in starts if start > place)
        share = _share(place - first, after - 1 - first)
        return self.end + (1.0 - self.end) * (1.0 + math.cos(math.pi * share)) / 2.0

    def _restarts(self, position: int, last: int) -> bool:
        return position in self._starts(last)

    def _starts(self, last: int) -> list[int]:
        """Return where cycles begin, the first at 0."""
        lengths = [self.growth**cycle for cycle in range(self.restarts + 1)]
        return [int((last + 1) * sum(lengths[:cycle]) / sum(lengths)) for cycle in range(self.restarts + 1)]


def _share(position: int, last: int) -> float:
    """Return how far from 0 to ``last`` a position is, from 0 to 1; 0 when there is no way to go."""
    return min(position / last, 1.0) if last else 0.0


def _power(base: float, exponent: int) -> float:
    try:
        return base**exponent
    except OverflowError:
        return LARGEST
