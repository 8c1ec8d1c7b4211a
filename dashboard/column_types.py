"""Column types that give back exactly what was stored, on SQLite as on any other database."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import DateTime, Dialect, Double, Text
from sqlalchemy.exc import DontWrapMixin
from sqlalchemy.types import TypeDecorator, TypeEngine

NAN_TEXT = "nan"


# SQLAlchemy wraps what a bind processor raises into StatementError, unless the class asks it not to.
class NaiveDatetimeError(DontWrapMixin, ValueError):
    """A datetime without a time zone where an instant is needed."""


class UtcDateTime(TypeDecorator[datetime]):
    """Map aware datetimes to UTC in the database and back to aware UTC datetimes.

    The instant survives to the microsecond, whatever the zone it was given in. Text order on SQLite is time order.

    Raises
    ------
    NaiveDatetimeError
        (a ``ValueError``) when a datetime without a time zone is bound.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return `value` in UTC."""
        if value is None:
            return None
        if value.utcoffset() is None:
            raise NaiveDatetimeError(
                f"datetime {value.isoformat()} has no time zone; pass an aware one, such as datetime.now(UTC)"
            )
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Return the stored instant as an aware UTC datetime."""
        if value is None:
            return None
        # SQLite keeps no time zone: what it gives back is naive and was stored as UTC.
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class _SqliteDouble(Double[float]):
    """DOUBLE on SQLite that lets the text for NaN through to the driver."""

    def bind_processor(self, dialect: Dialect) -> None:
        """Return None: the stock processor would turn the text back into a NaN, which SQLite stores as NULL."""


class ExactFloat(TypeDecorator[float]):
    """Map floats to double precision such that NaN, both infinities and every number survive exactly.

    SQLite binds NaN as NULL, so there NaN is stored as the text ``'nan'``; other databases have a NaN of their own.
    ``column != math.nan`` leaves NaN out on both, and NaN is greater than every number on both. SQLite drops
    the sign of -0.0.
    """

    impl = Double
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Return the column type of `dialect`."""
        return _SqliteDouble() if dialect.name == "sqlite" else self.impl_instance

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | str | None:
        """Return `value` as the driver stores it without loss."""
        if value is not None and dialect.name == "sqlite" and math.isnan(value):
            return NAN_TEXT
        return value

    def process_result_value(self, value: float | str | None, dialect: Dialect) -> float | None:
        """Return the stored number."""
        return None if value is None else float(value)


class PlainText(TypeDecorator[str]):
    """Map strings to text; a null character, which PostgreSQL has none of, becomes U+FFFD there."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return `value` as the driver takes it."""
        if value is not None and dialect.name == "postgresql":
            return value.replace("\0", "\ufffd")
        return value
