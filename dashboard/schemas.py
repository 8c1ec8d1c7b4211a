"""What writers hand to the run store and what readers get back; all frozen, all valid JSON."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, PlainSerializer

RunStatus = Literal["queued", "running", "completed", "failed", "cancelled"]
FinalStatus = Literal["completed", "failed", "cancelled"]
ShownStatus = Literal["queued", "running", "orphaned", "completed", "failed", "cancelled"]
RoundStatus = Literal["ok", "partial", "skipped", "rolled-back"]
Outcome = Literal["applied", "rejected", "late", "over-selected"]
BitsSource = Literal["run", "rule", "profile", "uplink", "estimate"]


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
    """One finished round; byte counts are sums over clients.

    Attributes
    ----------
    asked, clients, rejected, late
        How many clients were sent the model, were accepted, were rejected, and answered an earlier round.
    bits_per_coordinate, downlink_bits_per_coordinate
        What was measured, 8 · payload bytes / dim, as a mean over payloads; NaN or None when there were none.
    status
        ``partial``: fewer than were asked were accepted. ``skipped``: nobody was, the model is kept.
        ``rolled-back``: the model that came of it was given up.
    note
        Why, in words.
    update_norm
        Euclidean norm of the mean estimate.
    nmse
        Its error, ‖mean x̂ − mean x‖² / mean ‖x‖², where it was measured.
    seconds, server_seconds, evaluate_seconds
        Wall time of the whole round, and in it fedcomp's own work at the server and the evaluation of the model.
    model_version
        Version of the model that the round ended with.
    """

    round_index: Count
    accuracy: float | None = None
    loss: float | None = None
    train_loss: float | None = None
    asked: Count = 0
    clients: Count
    rejected: Count = 0
    late: Count = 0
    uplink_payload_bytes: Count
    uplink_envelope_bytes: Count
    downlink_payload_bytes: Count
    downlink_envelope_bytes: Count
    bits_per_coordinate: float
    downlink_bits_per_coordinate: float | None = None
    update_norm: float | None = None
    nmse: float | None = None
    seconds: float
    server_seconds: float = 0.0
    evaluate_seconds: float = 0.0
    model_version: int | None = None
    status: RoundStatus = "ok"
    note: str | None = None
    finished_at: UtcTime = Field(default_factory=_now)


def _default_outcome(given: dict[str, Any]) -> Outcome:
    return "applied" if given.get("reject_reason") is None else "rejected"


class ClientResult(_Frozen):
    """What one client did in one round; `client` is its name, unique in the round.

    Attributes
    ----------
    outcome
        What became of its update; unless given, ``rejected`` when there is a reason and else ``applied``.
    weight
        Its weight in the mean estimate.
    payload_bytes, envelope_bytes, downlink_payload_bytes, downlink_envelope_bytes
        What it sent and what it was sent: the payload, and what Flower's message adds to it.
    bits_asked, bits_source
        Its bit budget in bits per coordinate, and who set it: the run, one of its rules, the site's profile, the
        profile's uplink, or an estimate of the uplink.
    bits_per_coordinate
        What was measured, 8 · payload bytes / dim.
    uplink_mbps_estimate
        Megabits per second, from its past rounds.
    update_norm, clip_factor, cosine, outlier
        Norm of its decoded update, what that was multiplied by (1 when it was not clipped), its cosine with the mean
        estimate, and why it stands out, if it does.
    round_asked, staleness
        The round that had asked for the update, and how many versions older than the model its own one was.
    """

    client: str
    client_id: str
    node_id: str
    num_examples: Count
    weight: float | None = None
    payload_bytes: Count
    envelope_bytes: Count
    downlink_payload_bytes: Count = 0
    downlink_envelope_bytes: Count = 0
    bits_asked: float | None = None
    bits_source: BitsSource | None = None
    bits_per_coordinate: float
    uplink_mbps_estimate: float | None = None
    train_seconds: float
    encode_seconds: float
    decode_seconds: float
    train_loss: float | None = None
    vnmse: float | None = None
    update_norm: float | None = None
    clip_factor: float | None = None
    cosine: float | None = None
    outlier: str | None = None
    device: str
    reject_reason: str | None = None
    outcome: Outcome = Field(default_factory=_default_outcome)
    round_asked: int | None = None
    staleness: int | None = None


class RoundDetail(RoundResult):
    """One finished round with its clients, in the order of their names."""

    client_results: tuple[ClientResult, ...]


class RunSummary(_Frozen):
    """A run and its totals so far.

    `rounds_done` counts rounds from 1 on (round 0 is the evaluation before training). `last_accuracy` is that of the
    latest round that has one, be it NaN; `best_accuracy` is the highest number, never NaN; neither is of a round that
    was rolled back, since its model is gone. `mean_bits_per_coordinate` is the mean over accepted payloads: rounds
    count by their clients, rounds whose rate is NaN do not count. `stop_requested_at` is when somebody asked the run to
    end, `stop_reason` says why it ended before its last round. `heartbeat_at` is the writer's last sign of life;
    `orphaned` says that the run counts as running, but has given none for long.
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
    stop_requested_at: UtcTime | None = None
    stop_reason: str | None = None
    checkpoint_path: str | None
    created_at: UtcTime
    started_at: UtcTime | None
    finished_at: UtcTime | None
    rounds_done: int
    last_accuracy: float | None
    best_accuracy: float | None
    total_uplink_payload_bytes: int
    total_downlink_payload_bytes: int = 0
    mean_bits_per_coordinate: float | None
    tags: tuple[str, ...] = ()
    note: str | None = None
    archived_at: UtcTime | None = None
    heartbeat_at: UtcTime | None = None
    orphaned: bool = False

    @property
    def shown_status(self) -> ShownStatus:
        """The status with ``orphaned`` told apart from ``running``."""
        return "orphaned" if self.orphaned else self.status


class RunInfo(RunSummary):
    """A run with its settings and environment."""

    config: Mapping[str, JsonValue]
    environment: Mapping[str, JsonValue]


class RunDetail(RunInfo):
    """A run with its settings, environment and rounds, in order."""

    rounds: tuple[RoundDetail, ...]
