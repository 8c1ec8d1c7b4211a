"""What goes wrong, as a page for people and as JSON for programs."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DataError, OperationalError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, RedirectResponse, Response

from dashboard.errors import AmbiguousRun, BadCursor, RunEnded, RunInUse, RunNotFound, TokenNotFound
from dashboard.rendering import address, render
from dashboard.security import NotAllowed
from fedcomp.errors import ConfigError

_STATUS: dict[type[Exception], int] = {
    RunNotFound: 404,
    TokenNotFound: 404,
    AmbiguousRun: 409,
    RunEnded: 409,
    RunInUse: 409,
    BadCursor: 400,
    ConfigError: 422,
}
_TITLES = {400: "Bad request", 403: "Not allowed", 404: "Not found", 409: "Not now", 429: "Too many tries", 503: "Busy"}


def answer(request: Request, status: int, message: str, *, retry_after: int | None = None) -> Response:
    """Return what was wrong: JSON below /api, else a page."""
    headers = {"Retry-After": str(retry_after)} if retry_after is not None else {}
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    route_path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    if route_path.startswith(("/api/", "/metrics", "/healthz")) and route_path != "/api/docs":
        return JSONResponse({"detail": message}, status_code=status, headers=headers)
    title = _TITLES.get(status, "Something is wrong with this request")
    response = render(request, "error.html", title=title, message=message, status=status, status_code=status)
    response.headers.update(headers)
    return response


def install(app: FastAPI) -> None:
    """Add the handlers to an app."""

    def known(request: Request, error: Exception) -> Response:
        return answer(request, _STATUS[type(error)], str(error))

    def refused(request: Request, error: Exception) -> Response:
        if not isinstance(error, NotAllowed):
            raise error
        wants_page = "text/html" in request.headers.get("accept", "")
        if error.status == 401 and wants_page and request.method == "GET":
            return RedirectResponse(address(request, "login_page"), status_code=303)
        return answer(request, error.status, str(error), retry_after=error.retry_after)

    def invalid(request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            raise error
        found = error.errors()[0]
        place = ".".join(str(part) for part in found["loc"][1:]) or str(found["loc"][0])
        return answer(request, 422, f"{place}: {found['msg']}")

    def http(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        return answer(request, error.status_code, str(error.detail))

    def unfit(request: Request, _: Exception) -> Response:
        return answer(request, 400, "the database cannot hold this value")

    def busy(request: Request, _: Exception) -> Response:
        return answer(request, 503, "the database is busy or cannot be reached; try again", retry_after=5)

    for kind in _STATUS:
        app.add_exception_handler(kind, known)
    app.add_exception_handler(NotAllowed, refused)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(DataError, unfit)
    app.add_exception_handler(OperationalError, busy)
