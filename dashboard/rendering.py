"""Templates: how numbers, times and sizes are written, and what every page knows."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fastapi import Request
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.responses import HTMLResponse

from dashboard.security import Access, new_visit
from dashboard.services import services

TEMPLATES = Path(__file__).resolve().parent / "templates"
STATIC = Path(__file__).resolve().parent / "static"
_NOTHING = "–"
_SIZES = (("GB", 1e9), ("MB", 1e6), ("kB", 1e3))


def number(value: float | None, digits: int = 4) -> str:
    """Map a number to text with so many significant digits; NaN and the infinities are shown as such."""
    if value is None:
        return _NOTHING
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == int(value) and abs(value) < 1e12:
        return f"{int(value):,}"
    return f"{value:.{digits}g}".replace("-", "−")


def size(value: float | None) -> str:
    """Map a number of bytes to text, in powers of 1000."""
    if value is None:
        return _NOTHING
    for unit, factor in _SIZES:
        if value >= factor:
            return f"{value / factor:.3g} {unit}" if value < 1000 * factor else f"{value / factor:,.0f} {unit}"
    return f"{value:.0f} B"


def percent(value: float | None) -> str:
    """Map an accuracy to text with four digits."""
    return number(value) if value is None or not math.isfinite(value) else f"{value:.4f}"


def moment(value: datetime | None) -> str:
    """Map a time to UTC text."""
    return _NOTHING if value is None else f"{value.astimezone(UTC):%Y-%m-%d %H:%M:%S}"


def duration(seconds: float | None) -> str:
    """Map seconds to text."""
    if seconds is None or not math.isfinite(seconds):
        return number(seconds)
    if seconds < 90:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"


def setting(value: Any) -> str:
    """Map a setting's value to text as one types it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def environment() -> Environment:
    """Return the templates, which escape all they are given; compiled here, since the first page would wait for it."""
    found = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= {
        "number": number,
        "size": size,
        "percent": percent,
        "moment": moment,
        "duration": duration,
        "setting": setting,
    }
    for name in found.list_templates(extensions=["html"]):
        found.get_template(name)
    return found


def address(request: Request, name: str, /, **parameters: Any) -> str:
    """Return the path of a route for a browser, with the prefix that a proxy serves us under."""
    return str(request.scope.get("root_path", "")) + str(request.app.url_path_for(name, **parameters))


def render(
    request: Request, template: str, *, access: Access | None = None, status_code: int = 200, **context: Any
) -> HTMLResponse:
    """Return a page, and with it a session for a browser that has none yet."""
    parts = services(request)
    known = parts.gate.visit(request)
    visit = known or new_visit()
    text = request.app.state.templates.get_template(template).render(
        **context,
        access=access,
        csrf=parts.gate.csrf(visit),
        token_required=parts.gate.token_required,
        url=lambda name, /, **parameters: address(request, name, **parameters),
        path=request.url.path,
    )
    response = HTMLResponse(text, status_code=status_code)
    if known is None:
        parts.gate.remember(request, response, visit)
    return response
