"""A dashboard of which only the ingestion is there, to be switched off and on again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from pydantic import ValidationError

from dashboard.ingest import PATH, IngestBatch, apply
from dashboard.store import RunStore


class Dashboard:
    """What a test can set and see: answers to give instead of the true one, headers and sizes of what came."""

    def __init__(self, store: RunStore) -> None:
        self.store = store
        self.port = 0
        self.answer: int | None = None
        self.lose_replies = 0
        self.authorizations: list[str | None] = []
        self.batches: list[IngestBatch] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/prefix"

    @contextmanager
    def on(self) -> Iterator[None]:
        """Answer requests while the ``with`` block lasts, always at the same port."""
        dashboard = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                dashboard.authorizations.append(self.headers["Authorization"])
                self._answer(*dashboard.answer_to(self.path, body))

            def _answer(self, status: int, text: str) -> None:
                if status == 0:
                    self.close_connection = True
                    return
                self.send_response(status)
                self.send_header("Content-Length", str(len(text.encode())))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                pass

        with ThreadingHTTPServer(("127.0.0.1", self.port), Handler) as server:
            server.daemon_threads = True
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()

    def answer_to(self, path: str, body: bytes) -> tuple[int, str]:
        """Return status and text; status 0 is no answer at all."""
        if path != f"/prefix{PATH}":
            return 404, "nothing here"
        if self.answer is not None:
            return self.answer, "as the test wants"
        try:
            batch = IngestBatch.model_validate_json(body)
        except ValidationError as error:
            return 422, str(error)
        self.batches.append(batch)
        reply = apply(self.store, batch)
        if self.lose_replies:
            self.lose_replies -= 1
            return 0, ""
        return 200, reply.model_dump_json()
