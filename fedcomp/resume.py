"""Which settings a resumed run may change, and what is said when others did."""

from __future__ import annotations

from collections.abc import Mapping

from fedcomp.errors import ConfigError
from fedcomp.run_config import RunConfig

MAY_CHANGE = frozenset(
    {
        "resume",
        "name",
        "device",
        "log-level",
        "num-server-rounds",
        "min-clients",
        "node-timeout",
        "round-timeout",
        "checkpoint-every",
        "checkpoint-keep",
        "max-rollbacks",
        "target-accuracy",
        "max-uplink-mb",
        "patience",
        "measure-nmse",
        "sealing",
    }
)
"""Settings that leave the model of a given round what it would have been."""


SCHEDULES = ("server-schedule", "learning-rate-schedule", "cohort-schedule", "batch-schedule")


def check_same_run(run_id: str, before: Mapping[str, object], config: RunConfig) -> None:
    """Check that a run goes on with the settings that it began with.

    Raises
    ------
    ConfigError
        Naming each setting that differs, both values, and how to give the old one.
    """
    now = config.to_mapping()
    # A setting that this release added had its default before.
    defaults = RunConfig().to_mapping()
    changed = {
        key: (before.get(key, defaults[key]), value)
        for key, value in now.items()
        if key not in MAY_CHANGE and before.get(key, defaults[key]) != value
    }
    rounds = before.get("num-server-rounds", config.num_server_rounds)
    if rounds != config.num_server_rounds and any(_depends_on_length(str(now[key])) for key in SCHEDULES):
        changed["num-server-rounds"] = rounds, config.num_server_rounds
    if changed:
        lines = "; ".join(f"{key} was {_toml(old)}, is {_toml(new)}" for key, (old, new) in changed.items())
        again = " ".join(f"{key}={_toml(old)}" for key, (old, _) in changed.items())
        raise ConfigError(
            f"run {run_id} cannot be resumed with other settings: {lines}; give {again}, or start a new run"
        )


def _depends_on_length(schedule: str) -> bool:
    """Whether a schedule has other values in a run of another length."""
    return schedule.split(":")[0] in ("linear", "cosine")


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"'{value}'" if isinstance(value, str) else str(value)
