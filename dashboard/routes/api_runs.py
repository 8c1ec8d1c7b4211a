"""The JSON API, reading."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import StreamingResponse

from dashboard import queries
from dashboard.clients import client_summary
from dashboard.compare import curves
from dashboard.comparison import Comparison, chosen_runs, compare_runs
from dashboard.compressor_table import CompressorRow, compressor_rows
from dashboard.export import csv_lines, run_columns
from dashboard.groups import config_diff
from dashboard.run_list import choices, list_runs
from dashboard.schemas import ClientResult, RoundResult, RunInfo
from dashboard.schemas_compare import Choices, ClientSummary, ConfigDifference, Curve, RunPage, YAxis
from dashboard.services import Parts, reader
from dashboard.view_state import Filters, Text, ViewState

router = APIRouter(prefix="/api/v1", tags=["runs"], dependencies=[Depends(reader)])
_RUN_CURVES: tuple[YAxis, ...] = ("accuracy", "loss", "bits", "downlink_bits")
RunId = Annotated[str, Path(max_length=200, description="A run's id, the start of it, its name, or 'latest'.")]
RoundIndex = Annotated[int, Path(ge=0, lt=2**63)]


class RoundPage(BaseModel):
    """Some rounds of a run, in order; `next_after` asks for those after them and is null at the end."""

    model_config = ConfigDict(frozen=True)

    rounds: tuple[RoundResult, ...]
    next_after: int | None


class RunsWanted(Filters):
    """A page of the runs that fit."""

    limit: Annotated[int, Field(ge=1, le=500)] = 50
    cursor: Annotated[Text, Field(description="`next_cursor` of the page before")] = None


@router.get("/runs", name="runs_api")
def runs(parts: Parts, wanted: Annotated[RunsWanted, Query()]) -> RunPage:
    """List runs, the newest first."""
    with parts.store.reading() as session:
        return list_runs(session, wanted.run_filter(), limit=wanted.limit, cursor=wanted.cursor)


@router.get("/runs.csv", name="runs_csv", response_class=Response)
def runs_csv(parts: Parts, view: Annotated[ViewState, Query()]) -> StreamingResponse:
    """Send the picked runs, or those that fit the filters, as CSV."""
    with parts.store.reading() as session:
        found = chosen_runs(session, view)
    response = StreamingResponse(csv_lines(run_columns(), found), media_type="text/csv")
    response.headers["Content-Disposition"] = 'attachment; filename="runs.csv"'
    return response


@router.get("/runs/{run_id}")
def run(parts: Parts, run_id: RunId) -> RunInfo:
    """Return a run with its settings and environment."""
    with parts.store.reading() as session:
        return queries.info(session, queries.resolve(session, run_id))


@router.get("/runs/{run_id}/rounds")
def rounds(
    parts: Parts,
    run_id: RunId,
    after: Annotated[int, Query(ge=-1, lt=2**63)] = -1,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> RoundPage:
    """Return a run's rounds with an index above `after`."""
    with parts.store.reading() as session:
        found = queries.resolve(session, run_id).id
        rows = queries.round_rows(session, found, after=after, limit=limit + 1)
    more = len(rows) > limit
    return RoundPage(rounds=tuple(rows[:limit]), next_after=rows[limit - 1].round_index if more else None)


@router.get("/runs/{run_id}/rounds/{round_index}/clients")
def round_clients(parts: Parts, run_id: RunId, round_index: RoundIndex) -> list[ClientResult]:
    """Return what each client did in one round."""
    with parts.store.reading() as session:
        return queries.client_rows(session, queries.resolve(session, run_id).id, round_index)


@router.get("/runs/{run_id}/clients")
def run_clients(parts: Parts, run_id: RunId) -> list[ClientSummary]:
    """Return one row a client over all rounds of a run."""
    with parts.store.reading() as session:
        return client_summary(session, [queries.resolve(session, run_id).id])


@router.get("/runs/{run_id}/curves", name="run_curves")
def run_curves(parts: Parts, run_id: RunId) -> dict[str, Curve]:
    """Return a run's measurements by round."""
    with parts.store.reading() as session:
        found = queries.resolve(session, run_id).id
        return {name: curves(session, [found], "round", name)[0] for name in _RUN_CURVES}


@router.get("/compare", name="compare_api")
def compare(parts: Parts, view: Annotated[ViewState, Query()]) -> Comparison:
    """Compare runs as the first page does: groups, curves and the Pareto points."""
    with parts.store.reading() as session:
        return compare_runs(session, view, chosen_runs(session, view), drawn=True)


@router.get("/config-diff")
def differences(parts: Parts, run: Annotated[list[str], Query(min_length=1, max_length=200)]) -> list[ConfigDifference]:
    """Return the settings in which runs differ."""
    with parts.store.reading() as session:
        return config_diff(session, run)


@router.get("/choices")
def menus(parts: Parts) -> Choices:
    """Return what filters and groups can be set to."""
    with parts.store.reading() as session:
        return choices(session)


@router.get("/compressors", name="compressors_api", tags=["compressors"])
def compressors(kind: Annotated[Literal["all", "unbiased", "biased"], Query()] = "all") -> list[CompressorRow]:
    """List the schemes with their expected error and the Shannon bound."""
    return [row for row in compressor_rows() if kind == "all" or row.unbiased == (kind == "unbiased")]
