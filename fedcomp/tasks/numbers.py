"""Checks of the numbers that a task is given."""

from __future__ import annotations

import math

from fedcomp.errors import ConfigError

_MOST = 1_000_000


def count(task: str, key: str, value: object, *, least: int) -> int:
    """Return an integer option; raises ConfigError unless it is from ``least`` to a million."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= _MOST:
        hint = "" if least else "; 0 takes all"
        raise ConfigError(f"{task}: {key} = {value!r}; give an integer from {least} to {_MOST}{hint}")
    return value


def positive(task: str, key: str, value: object) -> float:
    """Return a numeric option; raises ConfigError unless it is finite and above 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not (math.isfinite(value) and value > 0):
        raise ConfigError(f"{task}: {key} = {value!r}; give a positive number")
    return float(value)


def partition_number(task: str, partition_id: int, num_partitions: int) -> None:
    """Raise ConfigError unless ``0 <= partition_id < num_partitions``."""
    if not 0 <= partition_id < num_partitions:
        raise ConfigError(
            f"{task}: partition-id {partition_id} of {num_partitions} partitions; give 0 to num-partitions - 1"
        )
