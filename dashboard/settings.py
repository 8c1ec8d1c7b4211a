"""Settings of the dashboard: from ``FEDCOMP_DASHBOARD_*`` variables, over which the command line's options win."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from fedcomp.errors import ConfigError
from fedcomp.home import database_url

PREFIX = "FEDCOMP_DASHBOARD_"
_VARIABLE_ONLY = ("secret", "poll_seconds", "heartbeat_seconds")
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


class DashboardSettings(BaseSettings):
    """How the dashboard is served.

    Attributes
    ----------
    host, port
        Where it listens; port 0 takes any free one.
    database
        URL of the runs database; the one in FEDCOMP_HOME by default.
    root_path
        Path under which a reverse proxy serves it, such as ``/fedcomp``; the proxy may strip it or not.
    require_token
        Whether a token is demanded; by default only where `host` is beyond loopback.
    allowed_hosts
        Names in the Host header that are answered besides loopback's own, which are the only ones while no token is
        demanded: a web page must not reach the dashboard by a name that it lets point to loopback.
    secret
        Key that signs cookies; by default a new one each start, so that a restart logs everybody out.
    poll_seconds, heartbeat_seconds
        How often a live page looks for new rounds, and after how long it says that it is still there.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    host: str = "127.0.0.1"
    port: int = Field(default=8420, ge=0, le=65535)
    database: str = Field(default_factory=database_url)
    root_path: str = ""
    require_token: bool | None = None
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    secret: SecretStr | None = None
    log_level: Literal["debug", "info", "warning", "error"] = "warning"
    poll_seconds: float = Field(default=1.0, gt=0, le=60)
    heartbeat_seconds: float = Field(default=15.0, gt=0, le=600)

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("root_path")
    @classmethod
    def _path(cls, value: str) -> str:
        if value and not value.startswith("/"):
            raise ValueError("a path begins with a slash, as in /fedcomp")
        return value.rstrip("/")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)

    @property
    def token_required(self) -> bool:
        """Whether requests need a token."""
        return not self.loopback if self.require_token is None else self.require_token

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """Host names that are answered; None for all."""
        return None if self.token_required and not self.allowed_hosts else _LOOPBACK_NAMES + self.allowed_hosts


def is_loopback(host: str) -> bool:
    """Return whether `host`, a name or an address, is this machine alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def load_settings(**given: Any) -> DashboardSettings:
    """Return the settings; what is None among `given` comes from the environment. Raises ``ConfigError``."""
    try:
        return DashboardSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        found = error.errors()[0]
        name = str(found["loc"][0])
        key, variable = name.replace("_", "-"), PREFIX + name.upper()
        place = variable if name in _VARIABLE_ONLY else f"option --{key} or {variable}"
        raise ConfigError(f"{key}={found['input']!r}: {found['msg']} ({place})") from error
