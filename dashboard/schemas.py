"""What writers hand to the run store and what readers get back; all frozen, all valid JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, PlainSerializer

RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
FinalStatus = Literal["completed", "failed", "cancelled"]
RoundStatus = Literal["ok", "partial", "skipped"]


def _now() -> datetime:
    return datetime.now(UTC)


def _to_utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


UtcTime = Annotated[AwareDatetime, AfterValidator(_to_utc)]
# A JSON number would lose digits above 2**53 in a browser.
Seed = Annotated[int, Field(ge=0, lt=2**64), PlainSerializer(str, return_type=str, when_used="json")]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class RunStart(_Frozen):
    """What is known about a run when it is created."""

    name: str
    task: str
    data_label: str
    compressor: str
    strategy: str
    seed: Seed
    num_rounds: Count
    dim: Count
    config: Mapping[str, JsonValue]
    environment: Mapping[str, JsonValue]
    flower_run_id: str | None = None
    created_at: UtcTime = Field(default_factory=_now)


class RoundResult(_Frozen):
    """One finished round; `clients` counts the accepted ones, and byte counts are sums over clients."""

    round_index: Count
    accuracy: float | None = None
    loss: float | None = None
    train_loss: float | None = None
    clients: Count
    rejected: Count = 0
    uplink_payload_bytes: Count
    uplink_envelope_bytes: Count
    downlink_payload_bytes: Count
    downlink_envelope_bytes: Count
    bits_per_coordinate: float
    seconds: float
    status: RoundStatus = "ok"
    finished_at: UtcTime = Field(default_factory=_now)


class ClientResult(_Frozen):
    """What one client did in one round; `client` is its name, unique in the round."""

    client: str
    client_id: str
    node_id: str
    num_examples: Count
    payload_bytes: Count
    envelope_bytes: Count
    bits_per_coordinate: float
    train_seconds: float
    encode_seconds: float
    decode_seconds: float
    train_loss: float | None = None
    vnmse: float | None = None
    device: str
    reject_reason: str | None = None


class RoundDetail(RoundResult):
    """One finished round with its clients, in the order of their names."""

    client_results: tuple[ClientResult, ...]


class RunSummary(_Frozen):
    """A run and its totals so far.

    `rounds_done` counts rounds from 1 on (round 0 is the evaluation before training). `last_accuracy` is that of the
    latest round that has one, be it NaN; `best_accuracy` is the highest number, never NaN. `mean_bits_per_coordinate`
    is the mean over accepted payloads: rounds count by their clients, rounds whose rate is NaN do not count.
    """

    id: str
    name: str
    task: str
    data_label: str
    compressor: str
    strategy: str
    seed: Seed
    num_rounds: int
    dim: int
    flower_run_id: str | None
    status: RunStatus
    error: str | None
    checkpoint_path: str | None
    created_at: UtcTime
    started_at: UtcTime | None
    finished_at: UtcTime | None
    rounds_done: int
    last_accuracy: float | None
    best_accuracy: float | None
    total_uplink_payload_bytes: int
    mean_bits_per_coordinate: float | None


class RunDetail(RunSummary):
    """A run with its settings, environment and rounds, in order."""

    config: Mapping[str, JsonValue]
    environment: Mapping[str, JsonValue]
    rounds: tuple[RoundDetail, ...]
