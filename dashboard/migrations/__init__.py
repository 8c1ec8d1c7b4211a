"""Alembic migrations of the runs database, run by :func:`dashboard.db.upgrade`; there is no alembic.ini.

A new migration is one more file in ``versions``, with the next number; it builds its columns from SQLAlchemy's own
types, because :mod:`dashboard.column_types` may change later. Alter SQLite tables with ``op.add_column`` or with batch
operations on leaf tables: a batch that recreates ``runs`` or ``rounds`` drops the old table, and that deletes the rows
that refer to it.
"""
