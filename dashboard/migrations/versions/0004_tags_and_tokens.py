"""Tags, notes, signs of life, access tokens, each round's mean vNMSE, and digests of runs that have ended."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_RUN_COLUMNS = (
    ("note", sa.Text()),
    ("archived_at", sa.DateTime(timezone=True)),
    ("heartbeat_at", sa.DateTime(timezone=True)),
    ("latest_start_at", sa.DateTime(timezone=True)),
)
# NaN is the text 'nan' on SQLite, and greater than every number on both; clients that measured one do not count.
_FILL = """UPDATE rounds SET vnmse = (
    SELECT avg(client_rounds.vnmse) FROM client_rounds
    WHERE client_rounds.run_id = rounds.run_id AND client_rounds.round_index = rounds.round_index
    AND client_rounds.vnmse {not_nan})"""


def upgrade() -> None:
    """Add columns and tables; the mean vNMSE of old rounds follows from their clients."""
    for name, kind in _RUN_COLUMNS:
        op.add_column("runs", sa.Column(name, kind, nullable=True))
    op.add_column("rounds", sa.Column("vnmse", sa.Double(), nullable=True))
    sqlite = op.get_bind().dialect.name == "sqlite"
    op.execute(_FILL.format(not_nan="<> 'nan'" if sqlite else "<> 'NaN'::double precision"))
    op.create_table(
        "run_digests",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("rounds_done", sa.BigInteger(), nullable=False),
        sa.Column("last_accuracy", sa.Double(), nullable=True),
        sa.Column("best_accuracy", sa.Double(), nullable=True),
        sa.Column("total_uplink_payload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("total_downlink_payload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("mean_bits_per_coordinate", sa.Double(), nullable=True),
        sa.Column("clients", sa.Text(), nullable=False),
        sa.Column("series", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", name="pk_run_digests"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_digests_run_id", ondelete="CASCADE"),
    )
    op.create_table(
        "run_tags",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "tag", name="pk_run_tags"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_run_tags_run_id", ondelete="CASCADE"),
    )
    op.create_index("ix_run_tags_tag", "run_tags", ["tag"])
    op.create_table(
        "tokens",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("digest", name="uq_tokens_digest"),
    )


def downgrade() -> None:
    """Drop them."""
    op.drop_table("tokens")
    op.drop_table("run_tags")
    op.drop_table("run_digests")
    op.drop_column("rounds", "vnmse")
    for name, _ in _RUN_COLUMNS:
        op.drop_column("runs", name)
