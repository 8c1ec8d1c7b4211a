"""RunConfig: one run's settings, as `flwr run --run-config` gives them, checked once."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

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
    resume: str = ""
    task: str = "emnist"
    seed: int = Field(default=1, ge=0, lt=2**63)
    device: str = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    compressor: str = "eden:bits=1,allocation=adaptive"
    error_feedback: Literal["auto", "on", "off"] = "auto"
    downlink_compressor: str = "identity"
    downlink_first_compressor: str = "float16"
    client_bits: str = ""
    target_upload_seconds: float = Field(default=0.0, ge=0, le=1e6)
    weights: Literal["examples", "variance", "uniform"] = "examples"
    sealing: Literal["off", "on"] = "off"

    mode: Literal["sync", "async"] = "sync"
    num_server_rounds: int = Field(default=12, ge=1)
    clients_per_round: int = Field(default=0, ge=0)
    sampler: Literal["uniform", "examples", "availability"] = "uniform"
    over_selection: int = Field(default=0, ge=0)
    min_clients: int = Field(default=2, ge=1)
    min_replies: int = Field(default=1, ge=1)
    node_timeout: float = Field(default=120.0, gt=0)
    round_timeout: float = Field(default=600.0, gt=0)
    async_concurrency: int = Field(default=0, ge=0)
    async_buffer_size: int = Field(default=5, ge=1)
    max_staleness: int = Field(default=10, ge=0)

    strategy: Literal["fedavg", "fedavgm", "fedadam", "fedyogi", "fedadagrad", "fedlamb", "fedlars"] = "fedavg"
    server_learning_rate: float = Field(default=1.0, gt=0)
    server_schedule: str = "constant"
    server_rate_scaling: Literal["none", "linear", "sqrt"] = "none"
    server_rate_base: int = Field(default=10, ge=1)
    server_momentum: float = Field(default=0.9, ge=0, lt=1)
    beta_1: float = Field(default=0.9, ge=0, lt=1)
    beta_2: float = Field(default=0.99, ge=0, lt=1)
    tau: float = Field(default=0.001, gt=0)
    trust: float = Field(default=0.001, gt=0)
    server_weight_decay: float = Field(default=0.0, ge=0)
    cohort_schedule: str = "constant"

    local_epochs: int = Field(default=1, ge=1)
    batch_size: int = Field(default=20, ge=1)
    batch_schedule: str = "constant"
    learning_rate: float = Field(default=0.03, gt=0)
    learning_rate_schedule: str = "constant"
    local_schedule: str = "constant"
    optimizer: Literal["sgd", "adam", "adamw", "adamw8bit"] = "sgd"
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=0.0, ge=0)
    proximal_mu: float = Field(default=0.0, ge=0)
    clip_gradients: float = Field(default=0.0, ge=0)
    micro_batch_size: int = Field(default=0, ge=0)
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    activation_checkpointing: Literal["auto", "on", "off"] = "auto"
    offload_activations: bool = False
    deterministic: bool = False

    checkpoint_every: int = Field(default=1, ge=0)
    checkpoint_keep: int = Field(default=2, ge=1)
    guard_loss_factor: float = Field(default=2.0, ge=0)
    guard_norm_factor: float = Field(default=20.0, ge=0)
    max_rollbacks: int = Field(default=3, ge=0)
    clip_norm: float = Field(default=0.0, ge=0)
    clip_factor: float = Field(default=0.0, ge=0)
    outlier_report: bool = False
    measure_nmse: bool = False

    target_accuracy: float = Field(default=0.0, ge=0, le=1)
    max_uplink_mb: float = Field(default=0.0, ge=0)
    patience: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _settings_fit_together(self) -> Self:
        if self.over_selection and not self.clients_per_round:
            raise ValueError(f"over-selection is {self.over_selection}, which needs clients-per-round above 0")
        if self.clients_per_round and self.min_replies > self.clients_per_round:
            raise ValueError(f"min-replies is {self.min_replies}, clients-per-round only {self.clients_per_round}")
        if self.mode == "async" and self.over_selection:
            raise ValueError("over-selection is for mode 'sync'; in mode 'async' nobody is waited for")
        if self.cohort_schedule != "constant" and (self.mode == "async" or not self.clients_per_round):
            raise ValueError(
                f"cohort-schedule is {self.cohort_schedule!r}, which needs mode 'sync' and clients-per-round above 0"
            )
        return self

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

    @property
    def fingerprint(self) -> str:
        """32 hexadecimal digits that no two different settings share."""
        text = json.dumps(self.to_mapping(), sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=16, person=b"fedcomp-config").hexdigest()


def _explain(item: Mapping[str, object], config: type[RunConfig]) -> str:
    location = item["loc"]
    if not location:  # not one key is wrong, but several do not fit together
        return f"run config: {str(item['msg']).removeprefix('Value error, ')}"
    key = str(location[0]) if isinstance(location, tuple) else "?"
    if item["type"] == "extra_forbidden":
        allowed = sorted(_kebab(name) for name in config.model_fields)
        near = difflib.get_close_matches(key, allowed, n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        return f"run config: unknown key {key!r}; {meant}allowed: {', '.join(allowed)}"
    return f"run config: {key} is {item['input']!r}: {str(item['msg'])[0].lower()}{str(item['msg'])[1:]}"
