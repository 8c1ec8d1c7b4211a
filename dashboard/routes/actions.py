"""What the forms on a run's page do; each goes back to a page."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Form, Request
from starlette.responses import RedirectResponse

from dashboard import changes
from dashboard.rendering import address
from dashboard.security import NotAllowed
from dashboard.services import Parts, Writer, services


def _from_our_form(request: Request, access: Writer, csrf: Annotated[str, Form(max_length=200)] = "") -> None:
    # A token in a header is sent by no foreign page; a cookie is.
    if not access.with_header:
        services(request).gate.check_csrf(request, csrf)


router = APIRouter(prefix="/runs/{run_id}", dependencies=[Depends(_from_our_form)])


@router.post("/rename", name="rename_run")
def rename(request: Request, parts: Parts, run_id: str, name: Annotated[str, Form()] = "") -> RedirectResponse:
    """Give the run another name."""
    with parts.store.writing() as session:
        changes.rename(session, run_id, name)
    return _to_run(request, run_id)


@router.post("/notes", name="annotate_run")
def annotate(
    request: Request, parts: Parts, run_id: str, note: Annotated[str, Form()] = "", tags: Annotated[str, Form()] = ""
) -> RedirectResponse:
    """Set the run's note and its tags, which commas separate."""
    with parts.store.writing() as session:
        # A browser ends lines as HTTP does.
        changes.set_note(session, run_id, note.replace("\r\n", "\n"))
        changes.set_tags(session, run_id, [tag for tag in tags.split(",") if tag.strip()])
    return _to_run(request, run_id)


@router.post("/archive", name="archive_run")
def archive(request: Request, parts: Parts, run_id: str, archived: Annotated[bool, Form()] = True) -> RedirectResponse:
    """Put the run away, or take it out again."""
    with parts.store.writing() as session:
        changes.archive(session, run_id, archived=archived)
    return _to_run(request, run_id)


@router.post("/stop", name="stop_run")
def stop(request: Request, parts: Parts, run_id: str) -> RedirectResponse:
    """Ask the run to end after its round in progress."""
    parts.store.request_stop(run_id)
    return _to_run(request, run_id)


@router.post("/delete", name="delete_run")
def delete(request: Request, parts: Parts, run_id: str, confirm: Annotated[str, Form()] = "") -> RedirectResponse:
    """Delete the run, once its id was typed."""
    if confirm.strip() != run_id:
        raise NotAllowed(409, f"nothing was deleted: type {run_id} to delete this run")
    with parts.store.writing() as session:
        changes.delete_run(session, run_id)
    return RedirectResponse(address(request, "compare"), status_code=303)


def _to_run(request: Request, run_id: str) -> RedirectResponse:
    return RedirectResponse(address(request, "run_page", run_id=run_id), status_code=303)
