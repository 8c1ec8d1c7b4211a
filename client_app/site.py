"""What this client is: its name, its part of the data, and what its site allows."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from fedcomp.errors import ConfigError
from fedcomp.site.profile import read_profile, resolve

NUMBERS = ("bits", "uplink-mbps", "max-bits")


@dataclass(frozen=True)
class Site:
    """A SuperNode's own settings, from ``--node-config`` and the profile that it names.

    Attributes
    ----------
    name
        Stable over runs and restarts: ``site``, else ``client-<partition>``; never the node id, which changes.
    partition_id, num_partitions
        Which part of the task's data it holds, and of how many.
    device
        Where it trains, when the site decides; None leaves that to the run.
    bits, uplink_mbps
        How much it wants to send, in bits a coordinate or Mbit/s; None leaves that to the run.
    max_bits
        What it may send at most, in bits a coordinate; more is refused.
    data
        Folder of a prepared data set that is this site's own; None for its part of the run's.
    shows_sent
        Whether a line is written for each message that leaves.
    sealing
        Folder with the keys of sealed messages; None when it has none.
    """

    name: str
    partition_id: int
    num_partitions: int
    device: str | None = None
    bits: float | None = None
    uplink_mbps: float | None = None
    sealing: Path | None = None
    max_bits: float | None = None
    data: Path | None = None
    shows_sent: bool = False

    @property
    def share(self) -> tuple[int, int]:
        """Which part of the data is trained on, and of how many: all of a data set of its own."""
        return (self.partition_id, self.num_partitions) if self.data is None else (0, 1)

    @classmethod
    def of(cls, node_config: Mapping[str, object]) -> Self:
        """Read a node config; what it says itself wins over the profile that it names.

        Raises
        ------
        ConfigError
            When the partition is missing or impossible, a number is not one above 0, or a path is relative.
        """
        profile = node_config.get("profile")
        if profile is not None:
            node_config = {**_settings_of(_path("profile", profile)), **node_config}
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
            sealing=_folder("sealing", node_config.get("sealing")),
            max_bits=numbers["max-bits"],
            data=_folder("data", node_config.get("data")),
            shows_sent=node_config.get("show-sent") is True,
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


def _folder(key: str, value: object) -> Path | None:
    return None if value is None else _path(key, value)


def _path(key: str, value: object) -> Path:
    path = Path(str(value)).expanduser()
    # Nobody at the site chooses the folder in which its client apps are started.
    if not path.is_absolute():
        raise ConfigError(f"node config: {key} is {value!r}; allowed: an absolute path")
    return path


def _settings_of(path: Path) -> dict[str, object]:
    """Return what a site's profile says, by the keys of a node config."""
    profile = read_profile(path)
    settings: dict[str, object] = {
        "site": profile.name,
        "partition-id": profile.partition_id,
        "num-partitions": profile.num_partitions,
        "device": profile.device,
        "bits": profile.bits,
        "uplink-mbps": profile.uplink_mbps,
        "max-bits": profile.max_bits,
        "show-sent": profile.show_sent,
        "data": None if profile.data is None else str(resolve(path, profile.data)),
        "sealing": None if profile.sealing is None else str(resolve(path, profile.sealing)),
    }
    return settings
