"""A server in this process that shows a certificate and answers as a coordinator's proxy does, or as a wrong one."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedcomp.site.authority import Certified


@dataclass
class Behaviour:
    """What the server does: how far its clock is ahead, which keys (PEM) it knows, what else it answers."""

    ahead: timedelta = timedelta()
    says_date: bool = True
    known: set[bytes] = field(default_factory=set)
    pages: set[str] = field(default_factory=set)
    status: int | None = None
    hangs_up: bool = False
    asked: list[tuple[str, str]] = field(default_factory=list)


def _handler(behaviour: Behaviour) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def send_response(self, code: int, message: str | None = None) -> None:
            self.send_response_only(code, message)
            if behaviour.says_date:
                self.send_header("Date", format_datetime(datetime.now(UTC) + behaviour.ahead, usegmt=True))

        def _answer(self, status: int, content: object = None) -> None:
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            behaviour.asked.append(("GET", self.path))
            if not behaviour.hangs_up:
                self._answer(200 if self.path in behaviour.pages else 404)

        def do_POST(self) -> None:
            behaviour.asked.append(("POST", self.path))
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if behaviour.status is not None:
                return self._answer(behaviour.status)
            public = base64.b64decode(self.headers["flwr-public-key"])
            signed_at = self.headers["flwr-timestamp"]
            key = serialization.load_pem_public_key(public)
            assert isinstance(key, ec.EllipticCurvePublicKey)
            signature = base64.b64decode(self.headers["flwr-signature"])
            key.verify(signature, signed_at.encode(), ec.ECDSA(hashes.SHA256()))
            age = datetime.now(UTC) + behaviour.ahead - datetime.fromisoformat(signed_at)
            if not timedelta(seconds=-5) < age < timedelta(seconds=305):
                return self._answer(401, {"detail": "Invalid SuperNode authentication"})
            # Field 1 is the key; there is no field 2, the interval, which a real node must send.
            assert body.startswith(b"\x0a")
            assert body.endswith(public)
            known = public in behaviour.known
            return self._answer(400 if known else 412, {"code": 2003 if known else 2004, "detail": "…"})

    return Handler


@contextmanager
def serving(behaviour: Behaviour, shown: Certified | None, folder: Path) -> Iterator[int]:
    """Serve on a free port, which is yielded; ``shown`` None is a server without TLS."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(behaviour))
    # A client that refuses the certificate is no news here.
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    if shown is not None:
        certificate, key = folder / "shown.pem", folder / "shown.key"
        certificate.write_bytes(shown.certificate_pem())
        key.write_bytes(shown.key_pem())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
