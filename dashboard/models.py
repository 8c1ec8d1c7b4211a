"""The tables of the runs database: runs, their rounds, what each client sent in a round, tags, and access tokens."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    UniqueConstraint,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from dashboard.column_types import ExactFloat, PlainText, UtcDateTime

# Named constraints: a later migration can only alter what has a name.
_NAMES = {
    "pk": "pk_%(table_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "ix": "ix_%(table_name)s_%(column_0_N_name)s",
}


# What rows have that were written before there was such a column.
_ZERO = text("0")


class Base(DeclarativeBase):
    """Base class of every table; says how Python types map to columns."""

    metadata = MetaData(naming_convention=_NAMES)
    type_annotation_map: ClassVar[dict[Any, Any]] = {
        str: PlainText(),
        bytes: LargeBinary(),
        int: BigInteger(),
        float: ExactFloat(),
        datetime: UtcDateTime(),
        dict[str, Any]: JSON(),
    }


class Run(Base):
    """One training run."""

    __tablename__ = "runs"
    __table_args__ = (Index(None, "name", "created_at"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    task: Mapped[str]
    data_label: Mapped[str]
    compressor: Mapped[str]
    strategy: Mapped[str]
    # Text: seeds use all of 64 bits, and SQL integers are signed.
    seed: Mapped[str]
    num_rounds: Mapped[int]
    dim: Mapped[int]
    config: Mapped[dict[str, Any]]
    environment: Mapped[dict[str, Any]]
    flower_run_id: Mapped[str | None] = mapped_column(index=True)
    status: Mapped[str]
    error: Mapped[str | None]
    checkpoint_path: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(index=True)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    stop_requested_at: Mapped[datetime | None]
    stop_reason: Mapped[str | None]
    note: Mapped[str | None]
    archived_at: Mapped[datetime | None]
    heartbeat_at: Mapped[datetime | None]
    # The writer's clock at its latest start; a start that is told twice is known by it.
    latest_start_at: Mapped[datetime | None]


class RunDigest(Base):
    """What pages ask of a run that has ended (:mod:`dashboard.digests`); deleted with it."""

    __tablename__ = "run_digests"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    rounds_done: Mapped[int]
    last_accuracy: Mapped[float | None]
    best_accuracy: Mapped[float | None]
    total_uplink_payload_bytes: Mapped[int]
    total_downlink_payload_bytes: Mapped[int]
    mean_bits_per_coordinate: Mapped[float | None]
    clients: Mapped[str]
    series: Mapped[bytes]


class RunTag(Base):
    """One tag of a run; deleted with it."""

    __tablename__ = "run_tags"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(primary_key=True, index=True)


class Token(Base):
    """An access token of the dashboard; only a digest of it is kept."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("digest"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    scope: Mapped[str]
    digest: Mapped[str]
    created_at: Mapped[datetime]
    expires_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class Round(Base):
    """One round of a run; deleted with it. The primary key makes (run, round) unique."""

    __tablename__ = "rounds"

    run_id: Mapped[str] = mapped_column(ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)
    round_index: Mapped[int] = mapped_column(primary_key=True)
    accuracy: Mapped[float | None]
    loss: Mapped[float | None]
    train_loss: Mapped[float | None]
    clients: Mapped[int]
    rejected: Mapped[int]
    uplink_payload_bytes: Mapped[int]
    uplink_envelope_bytes: Mapped[int]
    downlink_payload_bytes: Mapped[int]
    downlink_envelope_bytes: Mapped[int]
    bits_per_coordinate: Mapped[float]
    seconds: Mapped[float]
    status: Mapped[str]
    finished_at: Mapped[datetime]
    asked: Mapped[int] = mapped_column(server_default=_ZERO)
    late: Mapped[int] = mapped_column(server_default=_ZERO)
    note: Mapped[str | None]
    downlink_bits_per_coordinate: Mapped[float | None]
    update_norm: Mapped[float | None]
    server_seconds: Mapped[float] = mapped_column(server_default=_ZERO)
    evaluate_seconds: Mapped[float] = mapped_column(server_default=_ZERO)
    model_version: Mapped[int | None]
    nmse: Mapped[float | None]
    vnmse: Mapped[float | None]


class ClientRound(Base):
    """What one client did in one round; deleted with the round. The primary key makes (run, round, client) unique."""

    __tablename__ = "client_rounds"
    __table_args__ = (
        ForeignKeyConstraint(["run_id", "round_index"], ["rounds.run_id", "rounds.round_index"], ondelete="CASCADE"),
    )

    run_id: Mapped[str] = mapped_column(primary_key=True)
    round_index: Mapped[int] = mapped_column(primary_key=True)
    client: Mapped[str] = mapped_column(primary_key=True)
    client_id: Mapped[str]
    node_id: Mapped[str]
    num_examples: Mapped[int]
    payload_bytes: Mapped[int]
    envelope_bytes: Mapped[int]
    bits_per_coordinate: Mapped[float]
    train_seconds: Mapped[float]
    encode_seconds: Mapped[float]
    decode_seconds: Mapped[float]
    train_loss: Mapped[float | None]
    vnmse: Mapped[float | None]
    device: Mapped[str]
    reject_reason: Mapped[str | None]
    outcome: Mapped[str] = mapped_column(server_default="applied")
    weight: Mapped[float | None]
    bits_asked: Mapped[float | None]
    bits_source: Mapped[str | None]
    downlink_payload_bytes: Mapped[int] = mapped_column(server_default=_ZERO)
    downlink_envelope_bytes: Mapped[int] = mapped_column(server_default=_ZERO)
    uplink_mbps_estimate: Mapped[float | None]
    update_norm: Mapped[float | None]
    clip_factor: Mapped[float | None]
    cosine: Mapped[float | None]
    outlier: Mapped[str | None]
    staleness: Mapped[int | None]
    round_asked: Mapped[int | None]
