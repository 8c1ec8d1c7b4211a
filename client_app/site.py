"""What this client is: its name, its part of the data, and what its site allows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from fedcomp.errors import ConfigError

NUMBERS = ("bits", "uplink-mbps")


@dataclass(frozen=True)
class Site:
    """A SuperNode's own settings, from ``--node-config``.

    Attributes
    ----------
    name
        Stable over runs and restarts: ``site``, else ``client-<partition>``; never the node id, which changes.
    partition_id, num_partitions
        Which part of the task's data it holds, and of how many.
    device
        Where it trains, when the site decides; None leaves that to the run.
    bits, uplink_mbps
        How much it may send, in bits a coordinate or Mbit/s; None leaves that to the run.
    """

    name: str
    partition_id: int
    num_partitions: int
    device: str | None = None
    bits: float | None = None
    uplink_mbps: float | None = None

    @classmethod
    def of(cls, node_config: Mapping[str, object]) -> Self:
        """Read a node config.

        Raises
        ------
        ConfigError
            When the partition is missing or impossible, or a number is not one above 0.
        """
        partition_id, num_partitions = _partition(node_config)
        numbers = {key: _positive(node_config, key) for key in NUMBERS}
        device = node_config.get("device")
        return cls(
            name=str(node_config.get("site") or f"client-{partition_id}"),
            partition_id=partition_id,
            num_partitions=num_partitions,
            device=str(device) if device else None,
            bits=numbers["bits"],
            uplink_mbps=numbers["uplink-mbps"],
        )


def is_simulated() -> bool:
    """Whether this client is a ray worker beside the server, so that its uplink is none."""
    ray = sys.modules.get("ray")
    return ray is not None and bool(ray.is_initialized())


def _partition(node_config: Mapping[str, object]) -> tuple[int, int]:
    try:
        partition_id = int(str(node_config["partition-id"]))
        num_partitions = int(str(node_config["num-partitions"]))
    except (KeyError, ValueError) as error:
        raise ConfigError(
            f"node config is {dict(node_config)}; start the SuperNode with "
            "--node-config 'partition-id=0 num-partitions=10'"
        ) from error
    if not 0 <= partition_id < num_partitions:
        raise ConfigError(f"partition-id is {partition_id}; allowed: 0 to num-partitions - 1 = {num_partitions - 1}")
    return partition_id, num_partitions


def _positive(node_config: Mapping[str, object], key: str) -> float | None:
    value = node_config.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise ConfigError(f"node config: {key} is {value!r}; allowed: numbers above 0")
    return float(value)
