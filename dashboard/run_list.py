"""Lists of runs: filtered, in pages, the newest first."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, case, exists, func, or_, select
from sqlalchemy.orm import Session

from dashboard import queries
from dashboard.errors import BadCursor
from dashboard.models import Round, Run, RunDigest, RunTag
from dashboard.schemas_compare import Choices, RunFilter, RunPage

LARGEST_PAGE = 500


def list_runs(session: Session, chosen: RunFilter, *, limit: int = 50, cursor: str | None = None) -> RunPage:
    """Return at most `limit` (1 to 500) of the runs that `chosen` describes, the newest first.

    Pages stay right while runs are added: a cursor names the last run of the page before it.

    Raises
    ------
    BadCursor
        `cursor` names no run.
    """
    conditions = list(_conditions(chosen))
    total = session.scalar(select(func.count()).select_from(Run).where(*conditions)) or 0
    query = queries.newest_first().where(*conditions)
    if cursor is not None:
        last = session.get(Run, cursor)
        if last is None:
            raise BadCursor(cursor)
        older = or_(Run.created_at < last.created_at, (Run.created_at == last.created_at) & (Run.id < last.id))
        query = query.where(older)
    limit = min(max(limit, 1), LARGEST_PAGE)
    runs = session.scalars(query.limit(limit + 1)).all()
    shown = runs[:limit]
    return RunPage(
        runs=tuple(queries.summaries(session, shown)),
        next_cursor=shown[-1].id if len(runs) > limit else None,
        total=total,
    )


def choices(session: Session) -> Choices:
    """Return what occurs among all runs, for menus."""
    keys = {key for config in session.scalars(select(Run.config)) for key in config}
    return Choices(
        tasks=tuple(session.scalars(select(Run.task).distinct().order_by(Run.task))),
        compressors=tuple(session.scalars(select(Run.compressor).distinct().order_by(Run.compressor))),
        tags=tuple(session.scalars(select(RunTag.tag).distinct().order_by(RunTag.tag))),
        config_keys=tuple(sorted(keys)),
    )


def _conditions(chosen: RunFilter) -> Iterator[ColumnElement[bool]]:
    if chosen.task is not None:
        yield Run.task == chosen.task
    if chosen.compressor is not None:
        yield Run.compressor.icontains(chosen.compressor, autoescape=True)
    if chosen.name_prefix is not None:
        yield Run.name.startswith(chosen.name_prefix, autoescape=True)
    if chosen.tag is not None:
        yield exists().where(RunTag.run_id == Run.id, RunTag.tag == chosen.tag)
    if chosen.archived is not None:
        yield Run.archived_at.is_not(None) if chosen.archived else Run.archived_at.is_(None)
    if chosen.created_after is not None:
        yield Run.created_at >= chosen.created_after
    if chosen.created_before is not None:
        yield Run.created_at < chosen.created_before
    orphaned = queries.is_orphaned(datetime.now(UTC))
    if chosen.status == "orphaned":
        yield orphaned
    elif chosen.status == "running":
        yield (Run.status == "running") & ~orphaned
    elif chosen.status is not None:
        yield Run.status == chosen.status
    if chosen.min_bits is not None or chosen.max_bits is not None:
        yield from _bits_between(chosen.min_bits, chosen.max_bits)


def _bits_between(lowest: float | None, highest: float | None) -> Iterator[ColumnElement[bool]]:
    stored = select(RunDigest.mean_bits_per_coordinate).where(RunDigest.run_id == Run.id).scalar_subquery()
    digested = exists().where(RunDigest.run_id == Run.id)
    mean = case((digested, stored), else_=queries.mean_bits().where(Round.run_id == Run.id).scalar_subquery())
    if lowest is not None:
        yield mean >= lowest
    if highest is not None:
        yield mean <= highest
