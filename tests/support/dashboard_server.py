"""A dashboard that listens on a free port of this machine, in a thread of the test."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from dashboard.app import create_app
from dashboard.services import Services
from dashboard.settings import DashboardSettings, load_settings


@dataclass(frozen=True)
class Served:
    """A running dashboard."""

    url: str
    client: httpx.Client
    services: Services


@contextmanager
def serving(database: str, **given: Any) -> Iterator[Served]:
    """Serve the dashboard for `database` while the block lasts."""
    settings: DashboardSettings = load_settings(**({"database": database, "poll_seconds": 0.05} | given))
    app = create_app(settings)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1, ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        try:
            while not server.started and thread.is_alive():
                time.sleep(0.01)
            with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
                yield Served(url, client, app.state.services)
        finally:
            app.state.services.closing.set()
            server.should_exit = True
            thread.join(20)
