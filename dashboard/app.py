"""The dashboard as an ASGI app: pages, the JSON API, live streams."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import FastAPI
from pydantic_core import to_json
from sqlalchemy.orm import configure_mappers
from starlette.responses import JSONResponse
from starlette.staticfiles import StaticFiles

from dashboard import failures
from dashboard.counting import CountRequests
from dashboard.csp import SecurityHeaders
from dashboard.digest_worker import making_digests
from dashboard.prefix import Prefix
from dashboard.rendering import STATIC, environment
from dashboard.routes import (
    actions,
    api_changes,
    api_ingest,
    api_runs,
    clients,
    compare,
    compressors,
    documentation,
    live,
    login,
    operations,
    run,
)
from dashboard.security import Gate
from dashboard.services import Services
from dashboard.settings import DashboardSettings
from dashboard.store import RunStore


class ExactJSON(JSONResponse):
    """JSON in which NaN and the infinities are the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``."""

    def render(self, content: Any) -> bytes:
        """Return `content` as UTF-8."""
        return to_json(content, inf_nan_mode="strings")


def create_app(settings: DashboardSettings) -> FastAPI:
    """Return the dashboard for one database, which is created and migrated as needed.

    Raises
    ------
    UnknownRevision
        A newer fedcomp wrote the database.
    """
    store = RunStore(settings.database)
    secret = settings.secret.get_secret_value() if settings.secret else secrets.token_hex(32)
    services = Services(settings, store, Gate(secret, token_required=settings.token_required))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with store, making_digests(store, services.closing):
            yield

    app = FastAPI(
        title="fedcomp dashboard",
        version=_version(),
        description="Runs, their rounds, and what each client sent. NaN and the infinities are strings.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/v1/openapi.json",
        root_path=settings.root_path,
        default_response_class=ExactJSON,
        lifespan=lifespan,
        servers=[{"url": settings.root_path or "/"}],
        root_path_in_servers=False,
    )
    app.state.services = services
    app.state.templates = environment()
    for routes in (compare, run, live, clients, compressors, actions, login, documentation):
        app.include_router(routes.router, include_in_schema=False)
    for routes in (api_runs, api_changes, api_ingest, operations):
        app.include_router(routes.router)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    # What would else be built during the first request: the mapping of tables, and all routes, which a search goes over
    # before it comes to the last one.
    configure_mappers()
    app.url_path_for("static", path="app.css")
    failures.install(app)
    app.add_middleware(SecurityHeaders, hosts=settings.hosts)
    app.add_middleware(CountRequests, counter=services.requests)
    if settings.root_path:
        app.add_middleware(Prefix, root_path=settings.root_path)
    return app


def _version() -> str:
    try:
        return version("fedcomp")
    except PackageNotFoundError:
        return "0"
