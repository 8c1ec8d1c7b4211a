"""The command lines of Flower's long-running programs, and the environment they need."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fedcomp.site.federation import FederationFolder
from fedcomp.site.profile import CoordinatorEntry, resolve

# Nothing is installed at run time and nobody is called at home.
FLOWER_ENVIRONMENT: Mapping[str, str] = {
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_TELEMETRY_ENABLED": "0",
    "PYTHONUNBUFFERED": "1",
}


def superlink_command(folder: FederationFolder, *, port: int, programs: Path | None = None) -> list[str]:
    """Return the command of the coordinator's SuperLink, on loopback; it knows SuperNodes by their keys."""
    return [
        _program("flower-superlink", programs),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--ssl-ca-certfile", str(folder.ca_certificate)),
        *("--ssl-certfile", str(folder.server_certificate)),
        *("--ssl-keyfile", str(folder.server_key)),
        "--enable-supernode-auth",
        "--disable-runtime-dependency-installation",
        *("--database", str(folder.state / "superlink.db")),
    ]


def supernode_command(profile: Path, coordinator: CoordinatorEntry, *, programs: Path | None = None) -> list[str]:
    """Return the command of a site's SuperNode; ``profile`` is the absolute path of its site.toml."""
    address = f"[{coordinator.address}]" if ":" in coordinator.address else coordinator.address
    return [
        _program("flower-supernode", programs),
        *("--superlink", f"{address}:{coordinator.port}"),
        *("--root-certificates", str(resolve(profile, coordinator.ca))),
        *("--auth-supernode-private-key", str(resolve(profile, coordinator.key))),
        *("--port", str(coordinator.local_port)),
        # Without the quotes Flower takes the whole of it for the name of a TOML file.
        *("--node-config", f'profile="{profile}"'),
    ]


def _program(name: str, folder: Path | None) -> str:
    return name if folder is None else str(folder / name)
