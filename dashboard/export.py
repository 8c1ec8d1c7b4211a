"""Runs and rounds as CSV and JSON, in pieces, so that a long run need not fit into memory."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pydantic import BaseModel
from sqlalchemy.orm import Session

from dashboard import queries
from dashboard.schemas import RoundResult, RunSummary
from dashboard.store import RunStore

_BATCH = 500
# A spreadsheet takes a cell that begins so for a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def cell(value: Any) -> Any:
    """Map a value to what a CSV cell holds, numbers that are not finite as in JSON.

    Text that a spreadsheet would run begins with a quote mark instead.
    """
    if isinstance(value, (list, tuple)):
        return cell(" ".join(str(item) for item in value))
    if isinstance(value, str) and value.startswith(_FORMULA):
        return "'" + value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def csv_lines(header: Sequence[str], rows: Iterable[BaseModel]) -> Iterator[str]:
    """Yield lines of CSV, the names first."""
    yield _line(header)
    for row in rows:
        values = row.model_dump(mode="json")
        yield _line([cell(values[name]) for name in header])


def run_columns() -> list[str]:
    """Return the columns of a list of runs."""
    return list(RunSummary.model_fields)


def round_columns() -> list[str]:
    """Return the columns of a run's rounds."""
    return list(RoundResult.model_fields)


def rounds_of(store: RunStore, run_id: str) -> Iterator[RoundResult]:
    """Yield a run's rounds in order."""
    after = -1
    while True:
        with store.reading() as session:
            rows = queries.round_rows(session, run_id, after=after, limit=_BATCH)
        yield from rows
        if len(rows) < _BATCH:
            return
        after = rows[-1].round_index


def run_json(session: Session, run_id: str) -> str:
    """Return a run with everything known about it as JSON. Raises ``RunNotFound``."""
    return queries.detail(session, queries.resolve(session, run_id)).model_dump_json(indent=1)


def _line(values: Sequence[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer).writerow(values)
    return buffer.getvalue()
