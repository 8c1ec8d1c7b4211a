"""The JSON API, changing runs; a token with scope write, where tokens are asked for."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Path, Response
from pydantic import BaseModel, ConfigDict

from dashboard import changes, queries
from dashboard.schemas import RunInfo, RunSummary
from dashboard.services import Parts, script_writer

router = APIRouter(prefix="/api/v1", tags=["changes"], dependencies=[Depends(script_writer)])
RunId = Annotated[str, Path(max_length=200, description="A run's whole id.")]


class RunChange(BaseModel):
    """What is to change; what is left out stays."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str | None = None
    note: str | None = None
    tags: list[str] | None = None
    archived: bool | None = None


@router.patch("/runs/{run_id}")
def change(parts: Parts, run_id: RunId, wanted: RunChange) -> RunInfo:
    """Rename a run, set its note or tags, put it away or take it out again; all of it or nothing."""
    with parts.store.writing() as session:
        if wanted.name is not None:
            changes.rename(session, run_id, wanted.name)
        if wanted.note is not None:
            changes.set_note(session, run_id, wanted.note)
        if wanted.tags is not None:
            changes.set_tags(session, run_id, wanted.tags)
        if wanted.archived is not None:
            changes.archive(session, run_id, archived=wanted.archived)
    with parts.store.reading() as session:
        return queries.info(session, queries.resolve(session, run_id))


@router.post("/runs/{run_id}/stop")
def stop(parts: Parts, run_id: RunId) -> RunSummary:
    """Ask a run to end after its round in progress."""
    return parts.store.request_stop(run_id)


@router.delete("/runs/{run_id}", status_code=204)
def delete(parts: Parts, run_id: RunId) -> Response:
    """Delete a run with its rounds; its checkpoints stay."""
    with parts.store.writing() as session:
        changes.delete_run(session, run_id)
    return Response(status_code=204)
