"""Response headers that keep a browser from doing what the pages never do, and the check of the Host header.

Plain ASGI, so that event streams pass through unbuffered.
"""

from __future__ import annotations

from collections.abc import Sequence

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Nothing but our own files; `data:` and `blob:` pictures are Pico's icons and a plot on its way to a PNG file.
POLICY = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_STATIC = "/static/"


class SecurityHeaders:
    """Adds the headers to every response and refuses requests for a host that is not ours.

    Parameters
    ----------
    app
        What answers.
    hosts
        Host names, without port, that are answered; None for all.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str] | None) -> None:
        self._app = app
        self._hosts = None if hosts is None else {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-cache" if _STATIC in scope["path"] else "no-store")
            await send(message)

        refusal = self._refusal(scope)
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> PlainTextResponse | None:
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return PlainTextResponse("a null character in an address\n", status_code=400)
        if self._hosts is None:
            return None
        host = Headers(scope=scope).get("host", "").lower()
        name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
        if name in self._hosts:
            return None
        return PlainTextResponse(
            f"this dashboard is not {name[:100]!r}: open it as localhost, or name the host in --allowed-host\n",
            status_code=421,
        )
