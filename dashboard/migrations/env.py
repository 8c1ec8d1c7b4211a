"""Run the migrations on the connection that :func:`dashboard.db.upgrade` hands over; Alembic executes this file."""

from alembic import context

from dashboard.models import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
with context.begin_transaction():
    context.run_migrations()
