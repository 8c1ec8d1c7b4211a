"""The command lines of Flower's long-running programs, and the environment they need."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from fedcomp.site.federation import Federation, FederationFolder
from fedcomp.site.files import private_folder
from fedcomp.site.profile import CoordinatorEntry, resolve
from fedcomp.site.supervisor import Program

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


def coordinator_program(folder: FederationFolder, federation: Federation, *, programs: Path) -> Program:
    """Return the SuperLink as ``keep_up`` takes it; ``programs`` is the folder of Flower's programs."""
    return Program(
        name="the SuperLink",
        command=tuple(superlink_command(folder, port=federation.local_port, programs=programs)),
        folder=folder.state,
        log=folder.state / "superlink.log",
        port=federation.local_port,
        environment=_with_path(programs) | folder.environment(federation),
    )


def site_program(profile: Path, coordinator: CoordinatorEntry, *, state: Path, programs: Path) -> Program:
    """Return a site's SuperNode as ``keep_up`` takes it; makes the folder ``state``, for its log and Flower's files."""
    private_folder(state)
    return Program(
        name="the SuperNode",
        command=tuple(supernode_command(profile, coordinator, programs=programs)),
        folder=state,
        log=state / "supernode.log",
        port=coordinator.local_port,
        environment=_with_path(programs) | {"FLWR_HOME": str(state / "flwr")},
    )


def _with_path(programs: Path) -> dict[str, str]:
    # Flower starts flower-superexec and its other programs by name.
    return {**FLOWER_ENVIRONMENT, "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", "")])}


def _program(name: str, folder: Path | None) -> str:
    return name if folder is None else str(folder / name)
