"""Serving the dashboard until a signal ends it."""

from __future__ import annotations

import errno
import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn

from dashboard.app import create_app
from dashboard.services import Services
from dashboard.settings import DashboardSettings
from fedcomp.errors import FedcompError

_GRACE_SECONDS = 2


class CannotListen(FedcompError, OSError):
    """The host and port cannot be listened on; the message says why."""


class _Server(uvicorn.Server):
    """A server that tells its streams to end, since they would otherwise keep it from ending."""

    def __init__(self, config: uvicorn.Config, services: Services) -> None:
        super().__init__(config)
        self._services = services

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End on a signal."""
        self._services.closing.set()
        # After a first SIGINT another one ends at once, without waiting for answers in progress.
        super().handle_exit(signal.SIGTERM if sig == signal.SIGINT and not self.should_exit else sig, frame)


def serve(settings: DashboardSettings, on_start: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; then streams end at once and other answers have two seconds.

    Parameters
    ----------
    settings
        How to serve.
    on_start
        Called with the URL once connections are taken.

    Raises
    ------
    CannotListen
        The port is taken or the host is not this machine's.
    UnknownRevision
        A newer fedcomp wrote the database.
    """
    with _listen(settings.host.strip("[]"), settings.port) as listener:
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            log_level=settings.log_level,
            access_log=settings.log_level in ("debug", "info"),
            timeout_graceful_shutdown=_GRACE_SECONDS,
            server_header=False,
        )
        on_start(url_of(settings, listener.getsockname()[1]))
        _Server(config, app.state.services).run(sockets=[listener])


def url_of(settings: DashboardSettings, port: int) -> str:
    """Return the URL to open in a browser on this machine."""
    host = settings.host.strip("[]")
    # An address that means all of this machine's is none that a browser can open.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared with, not bound to
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{settings.root_path}/"


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise CannotListen(
                f"port {port} of {host} is taken: is a dashboard running there? or choose another --port"
            ) from error
        raise CannotListen(
            f"cannot listen on host {host!r}, port {port}: {error.strerror}; choose another --host or --port"
        ) from error
