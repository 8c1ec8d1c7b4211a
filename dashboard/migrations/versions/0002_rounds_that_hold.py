"""What became of each client's update, the downlink, and why a run ended."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_ZERO = sa.text("0")
_ADDED: Mapping[str, tuple[tuple[str, TypeEngine[Any], str | sa.TextClause | None], ...]] = {
    "runs": (
        ("stop_requested_at", sa.DateTime(timezone=True), None),
        ("stop_reason", sa.Text(), None),
    ),
    "rounds": (
        ("asked", sa.BigInteger(), _ZERO),
        ("late", sa.BigInteger(), _ZERO),
        ("note", sa.Text(), None),
        ("downlink_bits_per_coordinate", sa.Double(), None),
        ("update_norm", sa.Double(), None),
        ("server_seconds", sa.Double(), _ZERO),
        ("evaluate_seconds", sa.Double(), _ZERO),
        ("model_version", sa.BigInteger(), None),
    ),
    "client_rounds": (
        ("outcome", sa.Text(), "applied"),
        ("weight", sa.Double(), None),
        ("bits_asked", sa.Double(), None),
        ("bits_source", sa.Text(), None),
        ("downlink_payload_bytes", sa.BigInteger(), _ZERO),
        ("downlink_envelope_bytes", sa.BigInteger(), _ZERO),
        ("uplink_mbps_estimate", sa.Double(), None),
        ("update_norm", sa.Double(), None),
        ("clip_factor", sa.Double(), None),
        ("cosine", sa.Double(), None),
        ("outlier", sa.Text(), None),
        ("staleness", sa.BigInteger(), None),
        ("round_asked", sa.BigInteger(), None),
    ),
}


def upgrade() -> None:
    """Add the columns; old rows say what is known about them."""
    for table, columns in _ADDED.items():
        for name, kind, default in columns:
            op.add_column(table, sa.Column(name, kind, nullable=default is None, server_default=default))
    # Every client asked had a row then, accepted or rejected.
    op.execute("UPDATE rounds SET asked = clients + rejected")
    op.execute("UPDATE client_rounds SET outcome = 'rejected' WHERE reject_reason IS NOT NULL")


def downgrade() -> None:
    """Drop the columns."""
    for table, columns in _ADDED.items():
        for name, _, _ in columns:
            op.drop_column(table, name)
