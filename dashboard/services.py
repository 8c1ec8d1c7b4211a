"""What every route needs, made once an app: the settings, the store, the gate and the counters."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request

from dashboard.security import Access, Gate, NotAllowed
from dashboard.settings import DashboardSettings
from dashboard.store import RunStore

_SAFE = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True)
class Services:
    """One app's parts.

    Attributes
    ----------
    closing
        Set when the server is about to end; streams then end too.
    requests
        How many requests were answered, by method and status.
    """

    settings: DashboardSettings
    store: RunStore
    gate: Gate
    closing: threading.Event = field(default_factory=threading.Event)
    requests: Counter[tuple[str, int]] = field(default_factory=Counter)


def services(request: Request) -> Services:
    """Return the parts of the app that got this request."""
    return cast(Services, request.app.state.services)


def reader(request: Request) -> Access:
    """Let those in who may read. Raises ``NotAllowed``."""
    parts = services(request)
    with parts.store.reading() as session:
        return parts.gate.access(request, session)


def writer(request: Request) -> Access:
    """Let those in who may write, and no page of another site in their browser. Raises ``NotAllowed``."""
    access = reader(request)
    if not access.allows("write"):
        raise NotAllowed(403, f"the token {access.by!r} may only read: log in with a write token")
    site = request.headers.get("sec-fetch-site", "same-origin")
    if request.method not in _SAFE and not access.with_header and site not in ("same-origin", "none"):
        raise NotAllowed(403, "a page of another site asked for this")
    return access


def script_writer(request: Request) -> Access:
    """As `writer`; and where a browser's cookie comes along, the header ``X-CSRF-Token`` must too."""
    access, gate = writer(request), services(request).gate
    if not access.with_header and gate.visit(request) is not None:
        gate.check_csrf(request, request.headers.get("x-csrf-token", ""))
    return access


Parts = Annotated[Services, Depends(services)]
Reader = Annotated[Access, Depends(reader)]
Writer = Annotated[Access, Depends(writer)]
