"""What pages ask of a run that has ended, worked out once: totals, series, clients.

A digest is made when a run ends, or when a dashboard finds one without that is over or orphaned, and taken away by
whatever changes its rounds, in the same transaction; so it is never wrong, only absent, and then everything is worked
out from the rows. Two hundred runs are two hundred rows this way instead of three million.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import delete, exists, insert, or_, select
from sqlalchemy.orm import Session

from dashboard import queries
from dashboard.client_stats import measure_stats, to_json
from dashboard.models import Run, RunDigest
from dashboard.series import measure_series


def add(session: Session, run_id: str) -> None:
    """Make the digest of a run anew."""
    remove(session, run_id)
    values = queries.live_totals(session, [run_id]).get(run_id, queries.NO_ROUNDS)
    series = measure_series(session, [run_id])[run_id].tobytes()
    stats = to_json(measure_stats(session, [run_id])[run_id])
    session.execute(insert(RunDigest), [{"run_id": run_id, "series": series, "clients": stats, **values}])


def remove(session: Session, run_id: str) -> None:
    """Take a run's digest away, because its rounds change."""
    session.execute(delete(RunDigest).where(RunDigest.run_id == run_id))


def missing(session: Session) -> list[str]:
    """Return the runs without a digest that write no more: ended under an earlier release, or orphaned."""
    without = ~exists().where(RunDigest.run_id == Run.id)
    over = or_(Run.status.not_in(("queued", "running")), queries.is_orphaned(datetime.now(UTC)))
    return list(session.scalars(select(Run.id).where(over, without).order_by(Run.id)))
