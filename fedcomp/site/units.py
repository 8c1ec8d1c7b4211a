"""systemd units of the coordinator and of a site."""

from __future__ import annotations

from pathlib import Path

from fedcomp.site.federation import Federation, FederationFolder
from fedcomp.site.profile import CoordinatorEntry
from fedcomp.site.programs import FLOWER_ENVIRONMENT, superlink_command, supernode_command

COORDINATOR_UNIT, SITE_UNIT = "fedcomp-coordinator.service", "fedcomp-site.service"

# A SuperLink refuses a killed SuperNode's key for up to 60 s: try for as long as it takes, and not too often.
_UNIT = """\
[Unit]
Description={description}
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Service]
User={user}
{environment}
WorkingDirectory={state}
ExecStart={command}
Restart=always
RestartSec=15
TimeoutStopSec=60
KillMode=mixed
UMask=0077
NoNewPrivileges=true
PrivateTmp=true
ProtectSystem=strict
ReadWritePaths={writable}

[Install]
WantedBy=multi-user.target
"""


def coordinator_unit(federation: Federation, folder: FederationFolder, *, programs: Path, user: str) -> str:
    """Return the unit of the SuperLink; ``programs`` is the folder of Flower's programs."""
    return _unit(
        "fedcomp coordinator (Flower SuperLink)",
        user=user,
        command=superlink_command(folder, port=federation.local_port, programs=programs),
        programs=programs,
        state=folder.state,
        writable=(folder.state, folder.flwr),
        environment=folder.environment(federation),
    )


def site_unit(profile: Path, coordinator: CoordinatorEntry, *, programs: Path, user: str, state: Path) -> str:
    """Return the unit of a site's SuperNode; ``profile`` is the absolute path of its site.toml."""
    return _unit(
        "fedcomp site (Flower SuperNode)",
        user=user,
        command=supernode_command(profile, coordinator, programs=programs),
        programs=programs,
        state=state,
        writable=(state,),
        environment={"FLWR_HOME": str(state / "flwr"), "FEDCOMP_HOME": str(state / "fedcomp")},
    )


def _unit(
    description: str,
    *,
    user: str,
    command: list[str],
    programs: Path,
    state: Path,
    writable: tuple[Path, ...],
    environment: dict[str, str],
) -> str:
    variables = {
        # Flower starts flower-superexec and its other programs by name.
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "XDG_CACHE_HOME": str(state / "cache"),
        **FLOWER_ENVIRONMENT,
        **environment,
    }
    return _UNIT.format(
        description=description,
        user=user,
        environment="\n".join(f"Environment={_quoted(f'{key}={value}')}" for key, value in variables.items()),
        state=_escaped(state),
        command=" ".join(_quoted(word) for word in command),
        writable=" ".join(_quoted(path) for path in writable),
    )


def _quoted(text: object) -> str:
    plain = _escaped(text)
    return "'" + plain.replace("'", "\\'") + "'" if any(letter in plain for letter in " '\"") else plain


def _escaped(text: object) -> str:
    # % begins a specifier, \ an escape.
    return str(text).replace("\\", "\\\\").replace("%", "%%")
