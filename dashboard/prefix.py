"""The path that a reverse proxy serves us under, whether the proxy strips it or leaves it."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send


class Prefix:
    """Puts the prefix back where a proxy has stripped it, since mounted files are found only under their whole path."""

    def __init__(self, app: ASGIApp, root_path: str) -> None:
        self._app = app
        self._root = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and not f"{scope['path']}/".startswith(f"{self._root}/"):
            raw = scope.get("raw_path")
            whole = None if raw is None else self._root.encode() + raw
            scope = {**scope, "path": self._root + scope["path"], "raw_path": whole}
        await self._app(scope, receive, send)
