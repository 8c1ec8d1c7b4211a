"""What pages ask of a run that has ended, worked out once: totals, series, clients.

A digest is made when a run ends and taken away by whatever changes its rounds, in the same transaction; so it is never
wrong, only absent, and then everything is worked out from the rows. Two hundred runs are two hundred rows this way
instead of three million.
"""

from __future__ import annotations

from sqlalchemy import delete, exists, insert, select
from sqlalchemy.orm import Session

from dashboard import queries
from dashboard.client_stats import measure_stats, to_json
from dashboard.models import Run, RunDigest
from dashboard.series import measure_series


def seal(session: Session, run_id: str) -> None:
    """Make the digest of a run anew."""
    unseal(session, run_id)
    values = queries.live_totals(session, [run_id]).get(run_id, queries.NO_ROUNDS)
    series = measure_series(session, [run_id])[run_id].tobytes()
    stats = to_json(measure_stats(session, [run_id])[run_id])
    session.execute(insert(RunDigest), [{"run_id": run_id, "series": series, "clients": stats, **values}])


def unseal(session: Session, run_id: str) -> None:
    """Take a run's digest away, because its rounds change."""
    session.execute(delete(RunDigest).where(RunDigest.run_id == run_id))


def unsealed(session: Session) -> list[str]:
    """Return the runs that have ended and have no digest: those that earlier releases wrote."""
    without = ~exists().where(RunDigest.run_id == Run.id)
    return list(
        session.scalars(select(Run.id).where(Run.status.not_in(("queued", "running")), without).order_by(Run.id))
    )
