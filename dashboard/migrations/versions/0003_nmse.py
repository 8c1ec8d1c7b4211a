"""The measured error of each round's mean estimate."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; nobody measured it before."""
    op.add_column("rounds", sa.Column("nmse", sa.Double(), nullable=True))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("rounds", "nmse")
