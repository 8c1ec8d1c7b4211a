"""The schemes: what each sends and how far it is from what no code can beat."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from dashboard.compressor_table import compressor_rows
from dashboard.rendering import render
from dashboard.services import Reader

router = APIRouter()


@router.get("/compressors", name="compressors_page")
def page(request: Request, access: Reader) -> HTMLResponse:
    """Show the table and the curve."""
    return render(request, "compressors.html", access=access, rows=compressor_rows())
