"""The first page: which compressor reaches an accuracy for the fewest bytes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import HTMLResponse

from dashboard.comparison import chosen_runs, compare_runs
from dashboard.groups import config_diff
from dashboard.models import Run
from dashboard.queries import newest_first
from dashboard.rendering import render
from dashboard.run_list import choices, list_runs
from dashboard.services import Parts, Reader
from dashboard.view_state import MOST_RUNS, ViewState

router = APIRouter()
_DIFFED = 8  # more columns are not read by anybody


@router.get("/", name="compare")
def page(request: Request, parts: Parts, access: Reader, view: Annotated[ViewState, Query()]) -> HTMLResponse:
    """Show the comparison of the picked runs and the list to pick from."""
    with parts.store.reading() as session:
        found = choices(session)
        if view.task is None:
            # Accuracies of two tasks say nothing about each other: begin with the newest run's.
            shown = Run.archived_at.is_not(None) if view.archived else Run.archived_at.is_(None)
            newest = session.scalar(newest_first().with_only_columns(Run.task).where(shown).limit(1))
            view = view.model_copy(update={"task": newest or ""})
        listed = list_runs(session, view.run_filter(), limit=MOST_RUNS)
        runs = chosen_runs(session, view) if view.run else list(listed.runs)
        comparison = compare_runs(session, view, runs, drawn=False)
        differences = config_diff(session, [run.id for run in runs]) if len(runs) > 1 else []
    return render(
        request,
        "compare.html",
        access=access,
        view=view,
        choices=found,
        listed=listed,
        runs=runs,
        diffed=runs[:_DIFFED],
        comparison=comparison,
        differences=differences,
    )
