"""Taking in what the writers of other machines tell."""

from __future__ import annotations

from fastapi import APIRouter, Depends

from dashboard.ingest import PATH, IngestBatch, IngestReply, apply
from dashboard.services import Parts, script_writer

router = APIRouter(tags=["ingest"], dependencies=[Depends(script_writer)])


@router.post(PATH)
def ingest(parts: Parts, batch: IngestBatch) -> IngestReply:
    """Apply a batch of events in order; a batch may be sent again."""
    return apply(parts.store, batch)
