"""RunConfig: one run's settings, as `flwr run --run-config` gives them, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedcomp.config import Value
from fedcomp.errors import ConfigError


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class RunConfig(BaseModel):
    """A run's settings; every key is explained in docs/configuration.md.

    Keys are written with hyphens in TOML and on the command line. The defaults here and those in pyproject.toml are the
    same (a test compares them).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=_kebab, populate_by_name=True, strict=True)

    name: str = ""
    task: str = "emnist"
    compressor: str = "eden:bits=1,allocation=adaptive"
    num_server_rounds: int = Field(default=12, ge=1)
    clients_per_round: int = Field(default=0, ge=0)
    min_clients: int = Field(default=2, ge=1)
    node_timeout: float = Field(default=120.0, gt=0)
    round_timeout: float = Field(default=600.0, gt=0)
    strategy: Literal["fedavg", "fedavgm", "fedadam", "fedyogi"] = "fedavg"
    server_learning_rate: float = Field(default=1.0, gt=0)
    server_momentum: float = Field(default=0.9, ge=0, lt=1)
    local_epochs: int = Field(default=1, ge=1)
    batch_size: int = Field(default=20, ge=1)
    learning_rate: float = Field(default=0.03, gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)
    seed: int = Field(default=1, ge=0, lt=2**63)
    device: str = "auto"
    checkpoint_every: int = Field(default=1, ge=0)
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Value]) -> Self:
        """Check settings with hyphenated keys.

        Raises
        ------
        ConfigError
            Naming each wrong key, its value and what is allowed.
        """
        try:
            return cls.model_validate(dict(settings))
        except ValidationError as error:
            raise ConfigError("; ".join(_explain(item, cls) for item in error.errors())) from error

    def to_mapping(self) -> dict[str, Value]:
        """Return the settings with hyphenated keys."""
        return self.model_dump(by_alias=True)


def _explain(item: Mapping[str, object], config: type[RunConfig]) -> str:
    location = item["loc"]
    key = str(location[0]) if isinstance(location, tuple) and location else "?"
    if item["type"] == "extra_forbidden":
        allowed = ", ".join(sorted(_kebab(name) for name in config.model_fields))
        return f"run config: unknown key {key!r}; allowed: {allowed}"
    return f"run config: {key} is {item['input']!r}: {str(item['msg'])[0].lower()}{str(item['msg'])[1:]}"
