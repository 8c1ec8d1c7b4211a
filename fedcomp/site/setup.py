"""Making a federation: the coordinator's folder with all keys, configuration and archives."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import fedcomp
from fedcomp.sealing.keys import SERVER_KEY
from fedcomp.site import containers, guides, proxy, units
from fedcomp.site.archives import PROGRAMS
from fedcomp.site.authority import AUTHORITY_DAYS, SERVER_DAYS, check_host, create_authority, issue_server
from fedcomp.site.errors import BadHost, NotWritten
from fedcomp.site.federation import Federation, FederationFolder
from fedcomp.site.files import private_folder, write_private
from fedcomp.site.membership import with_site
from fedcomp.site.names import check_name
from fedcomp.site.sealing_keys import create_sealing_key

PORT, LOCAL_PORT = 8443, 9092

# The proxy and `flwr` reach the SuperLink by these.
_LOOPBACK = ("localhost", "127.0.0.1")


@dataclass(frozen=True)
class Plan:
    """What a new federation is to be.

    Attributes
    ----------
    hosts
        DNS names and IP addresses by which sites reach the coordinator; the first is the one they are told.
    names
        The sites.
    port, local_port
        The proxy's, and the SuperLink's on loopback.
    partitions
        Parts of a common data set; None for one a site.
    sealed
        Whether sites refuse messages that are not sealed.
    days, authority_days
        How long server certificate and authority last.
    """

    hosts: tuple[str, ...]
    names: tuple[str, ...]
    port: int = PORT
    local_port: int = LOCAL_PORT
    partitions: int | None = None
    sealed: bool = True
    days: float = SERVER_DAYS
    authority_days: float = AUTHORITY_DAYS


def create_federation(
    path: Path, plan: Plan, *, now: datetime, programs: Path = PROGRAMS, force: bool = False
) -> Federation:
    """Make the coordinator's folder with all keys, and an archive for each site.

    Parameters
    ----------
    path
        The folder; other files name each other by its absolute path, so it should stay where it is.
    programs
        Folder of Flower's programs on the coordinator's host, for the unit.
    force
        Replace a federation that is there: none of its sites gets in any more.

    Raises
    ------
    NotWritten
        When the folder holds something and ``force`` is not set, or cannot be written.
    BadHost, BadSiteName
        When a host or name is none.
    """
    folder = FederationFolder(path.absolute())
    if not plan.hosts:
        raise BadHost("no host: give at least one name or address by which the sites reach the coordinator")
    for host in plan.hosts:
        check_host(host)
    names = [check_name(name) for name in plan.names]
    if not force and folder.path.is_dir() and any(folder.path.iterdir()):
        raise NotWritten(f"{folder.path} is not empty; choose another folder, or use --force to begin anew in it")
    authority = create_authority("fedcomp federation " + plan.hosts[0][:40], now=now, days=plan.authority_days)
    hosts = tuple(dict.fromkeys((*plan.hosts, *_LOOPBACK)))
    server = issue_server(authority, hosts, now=now, days=plan.days)
    sealing = create_sealing_key()
    federation = Federation(
        address=plan.hosts[0],
        port=plan.port,
        local_port=plan.local_port,
        hosts=hosts,
        num_partitions=max(plan.partitions or 0, len(names)),
        sealed=plan.sealed,
        sites={},
    )
    _make_folders(folder)
    for file, data in (
        (folder.ca_key, authority.key_pem()),
        (folder.ca_certificate, authority.certificate_pem()),
        (folder.server_key, server.key_pem()),
        (folder.server_certificate, server.certificate_pem()),
        (folder.sealing / SERVER_KEY, sealing.private),
    ):
        write_private(file, data, replace=force)
    for name in names:
        federation = with_site(folder, federation, name, authority.certificate_pem(), now=now, replace=force)
    folder.save(federation, replace=force)
    _write_texts(folder, federation, programs=programs, replace=force)
    return federation


def _make_folders(folder: FederationFolder) -> None:
    files = (folder.ca_key, folder.server_key, folder.supernode_key("x"), folder.archive("x"))
    folders = [folder.path, *(file.parent for file in files)]
    for path in (*folders, folder.sealing, folder.flwr, folder.state, folder.deploy):
        private_folder(path)


def _write_texts(folder: FederationFolder, federation: Federation, *, programs: Path, replace: bool) -> None:
    """Write what holds no secret: connection, proxy, unit, containers and README."""
    user, deploy = pwd.getpwuid(os.getuid()), folder.deploy
    unit = units.coordinator_unit(federation, folder, programs=programs, user=user.pw_name)
    compose = containers.coordinator_compose(
        federation, folder, version=fedcomp.__version__, user=f"{user.pw_uid}:{user.pw_gid}"
    )
    connection = (
        f'[superlink]\ndefault = "coordinator"\n\n[superlink.coordinator]\n'
        f'address = "127.0.0.1:{federation.local_port}"\nroot-certificates = "{folder.ca_certificate}"\n'
    )
    texts = {
        folder.flwr / "config.toml": connection,
        deploy / proxy.SERVER_FILE: proxy.server_block(federation, folder),
        deploy / proxy.MAIN_FILE: proxy.main_file(folder),
        deploy / units.COORDINATOR_UNIT: unit,
        deploy / containers.COMPOSE_FILE: compose,
        deploy / containers.DOCKERFILE: containers.dockerfile(fedcomp.__version__, str(deploy / containers.DOCKERFILE)),
        folder.path / "README.md": guides.coordinator_guide(federation, folder),
    }
    for path, text in texts.items():
        write_private(path, text.encode(), replace=replace)
