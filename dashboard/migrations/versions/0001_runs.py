"""Runs, their rounds, and what each client sent."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the three tables."""
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("data_label", sa.Text(), nullable=False),
        sa.Column("compressor", sa.Text(), nullable=False),
        sa.Column("strategy", sa.Text(), nullable=False),
        sa.Column("seed", sa.Text(), nullable=False),
        sa.Column("num_rounds", sa.BigInteger(), nullable=False),
        sa.Column("dim", sa.BigInteger(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("environment", sa.JSON(), nullable=False),
        sa.Column("flower_run_id", sa.Text(), nullable=True),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("checkpoint_path", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_name_created_at", "runs", ["name", "created_at"])
    op.create_index("ix_runs_flower_run_id", "runs", ["flower_run_id"])
    op.create_index("ix_runs_created_at", "runs", ["created_at"])
    op.create_table(
        "rounds",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("round_index", sa.BigInteger(), nullable=False),
        sa.Column("accuracy", sa.Double(), nullable=True),
        sa.Column("loss", sa.Double(), nullable=True),
        sa.Column("train_loss", sa.Double(), nullable=True),
        sa.Column("clients", sa.BigInteger(), nullable=False),
        sa.Column("rejected", sa.BigInteger(), nullable=False),
        sa.Column("uplink_payload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("uplink_envelope_bytes", sa.BigInteger(), nullable=False),
        sa.Column("downlink_payload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("downlink_envelope_bytes", sa.BigInteger(), nullable=False),
        sa.Column("bits_per_coordinate", sa.Double(), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("run_id", "round_index", name="pk_rounds"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_rounds_run_id", ondelete="CASCADE"),
    )
    op.create_table(
        "client_rounds",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("round_index", sa.BigInteger(), nullable=False),
        sa.Column("client", sa.Text(), nullable=False),
        sa.Column("client_id", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Text(), nullable=False),
        sa.Column("num_examples", sa.BigInteger(), nullable=False),
        sa.Column("payload_bytes", sa.BigInteger(), nullable=False),
        sa.Column("envelope_bytes", sa.BigInteger(), nullable=False),
        sa.Column("bits_per_coordinate", sa.Double(), nullable=False),
        sa.Column("train_seconds", sa.Double(), nullable=False),
        sa.Column("encode_seconds", sa.Double(), nullable=False),
        sa.Column("decode_seconds", sa.Double(), nullable=False),
        sa.Column("train_loss", sa.Double(), nullable=True),
        sa.Column("vnmse", sa.Double(), nullable=True),
        sa.Column("device", sa.Text(), nullable=False),
        sa.Column("reject_reason", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("run_id", "round_index", "client", name="pk_client_rounds"),
        sa.ForeignKeyConstraint(
            ["run_id", "round_index"],
            ["rounds.run_id", "rounds.round_index"],
            name="fk_client_rounds_run_id_round_index",
            ondelete="CASCADE",
        ),
    )


def downgrade() -> None:
    """Drop the three tables."""
    op.drop_table("client_rounds")
    op.drop_table("rounds")
    op.drop_table("runs")
