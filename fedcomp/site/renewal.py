"""Certificates before they end: a new one for the server, a later end for the authority."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from fedcomp.site import proxy
from fedcomp.site.authority import AUTHORITY_DAYS, SERVER_DAYS, Certified, check_host, issue_server, renew_authority
from fedcomp.site.errors import BadFederation
from fedcomp.site.federation import Federation, FederationFolder
from fedcomp.site.files import write_private


def renew_server(path: Path, *, now: datetime, hosts: Sequence[str] = (), days: float = SERVER_DAYS) -> Federation:
    """Replace the server's key and certificate; ``hosts`` are added to those it is for. Sites need nothing new.

    Raises
    ------
    BadFederation, BadCertificate, BadHost
        When the authority cannot be read, or a host is none.
    """
    folder = FederationFolder(path.absolute())
    federation = folder.load()
    authority = load_authority(folder)
    everywhere = tuple(dict.fromkeys((*federation.hosts, *(check_host(host) for host in hosts))))
    server = issue_server(authority, everywhere, now=now, days=days)
    write_private(folder.server_key, server.key_pem(), replace=True)
    write_private(folder.server_certificate, server.certificate_pem(), replace=True)
    updated = federation.model_copy(update={"hosts": everywhere})
    folder.save(updated, replace=True)
    if updated.hosts != federation.hosts:
        block = proxy.server_block(updated, folder)
        write_private(folder.deploy / proxy.SERVER_FILE, block.encode(), replace=True)
    return updated


def renew_certificate_authority(path: Path, *, now: datetime, days: float = AUTHORITY_DAYS) -> Certified:
    """Give the authority's certificate a later end, with the same key; sites need the new one before the old ends.

    Raises
    ------
    BadFederation, BadCertificate
        When the authority cannot be read.
    """
    folder = FederationFolder(path.absolute())
    renewed = renew_authority(load_authority(folder), now=now, days=days)
    write_private(folder.ca_certificate, renewed.certificate_pem(), replace=True)
    return renewed


def load_authority(folder: FederationFolder) -> Certified:
    """Read the authority; raises BadFederation or BadCertificate."""
    try:
        return Certified.from_pem(folder.ca_key.read_bytes(), folder.ca_certificate.read_bytes())
    except OSError as error:
        raise BadFederation(
            f"{error.filename} cannot be read: {error.strerror}; put the authority back from its backup"
        ) from error
