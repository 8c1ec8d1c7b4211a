"""Logging in with a token, and out."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Form, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from dashboard.rendering import address, render
from dashboard.security import NotAllowed, new_visit
from dashboard.services import Parts
from dashboard.tokens import note_use

router = APIRouter()


@router.get("/login", name="login_page")
def page(request: Request) -> HTMLResponse:
    """Ask for a token."""
    return render(request, "login.html", wrong=None)


@router.post("/login", name="login")
def login(
    request: Request,
    parts: Parts,
    token: Annotated[str, Form(max_length=500)] = "",
    csrf: Annotated[str, Form(max_length=200)] = "",
) -> Response:
    """Begin a session with a token."""
    parts.gate.check_csrf(request, csrf)
    try:
        with parts.store.reading() as session:
            found = parts.gate.token(request, session, token.strip())
    except NotAllowed as error:
        response = render(request, "login.html", wrong=str(error), status_code=error.status)
        if error.retry_after is not None:
            response.headers["Retry-After"] = str(error.retry_after)
        return response
    with parts.store.writing() as session:
        note_use(session, found.id)
    answer = RedirectResponse(address(request, "compare"), status_code=303)
    parts.gate.remember(request, answer, new_visit(found.id))
    return answer


@router.post("/logout", name="logout")
def logout(request: Request, parts: Parts, csrf: Annotated[str, Form(max_length=200)] = "") -> RedirectResponse:
    """End the session."""
    parts.gate.check_csrf(request, csrf)
    answer = RedirectResponse(address(request, "login_page"), status_code=303)
    parts.gate.remember(request, answer, new_visit())
    return answer
