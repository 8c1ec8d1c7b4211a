"""Who is in a federation: add a site, revoke one."""

from __future__ import annotations

from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import fedcomp
from fedcomp.sealing.keys import SERVER_KEY, load_key, public_text
from fedcomp.site import guides
from fedcomp.site.archives import pack, site_files
from fedcomp.site.errors import SiteExists, SiteRevoked
from fedcomp.site.federation import Federation, FederationFolder, SiteEntry
from fedcomp.site.files import write_private
from fedcomp.site.names import check_name
from fedcomp.site.profile import CoordinatorEntry
from fedcomp.site.sealing_keys import create_sealing_key
from fedcomp.site.supernode_keys import create_supernode_key


def add_site(path: Path, name: str, *, now: datetime, force: bool = False) -> Federation:
    """Add a site, with new keys and an archive; with ``force`` give one that is there new keys.

    Raises
    ------
    BadFederation, BadSiteName, NotWritten
        When the folder is no federation, the name cannot be one, or a file is in the way.
    SiteExists
        When there is one of that name and ``force`` is not set.
    """
    folder = FederationFolder(path.absolute())
    federation = folder.load()
    if check_name(name) in federation.sites and not force:
        raise SiteExists(f"site {name!r} is there already; use --force to give it new keys, its old ones are void then")
    updated = with_site(folder, federation, name, folder.ca_certificate.read_bytes(), now=now, replace=force)
    folder.save(updated, replace=True)
    write_private(folder.path / "README.md", guides.coordinator_guide(updated, folder).encode(), replace=True)
    return updated


def revoke_site(path: Path, name: str, *, now: datetime) -> Federation:
    """Note a site as revoked, take its key off the list of sealing keys, and delete its archive.

    The SuperLink keeps a list of its own: :func:`fedcomp.site.superlink_list.synchronize` tells it.

    Raises
    ------
    BadFederation, UnknownSiteName, SiteRevoked
        When there is no such site, or it was revoked before.
    """
    folder = FederationFolder(path.absolute())
    federation = folder.load()
    site = federation.site(name)
    if site.revoked:
        raise SiteRevoked(f"site {name!r} was revoked on {site.revoked} already")
    updated = federation.with_site(name, site.model_copy(update={"revoked": f"{now:%Y-%m-%d}", "node_id": ""}))
    folder.save(updated, replace=True)
    folder.archive(name).unlink(missing_ok=True)
    write_private(folder.path / "README.md", guides.coordinator_guide(updated, folder).encode(), replace=True)
    return updated


def with_site(
    folder: FederationFolder, federation: Federation, name: str, authority: bytes, *, now: datetime, replace: bool
) -> Federation:
    """Write a site's archive and public key, and return the federation with it, not yet saved; raises NotWritten."""
    known = federation.sites.get(name)
    taken = [site.partition_id for site in federation.sites.values()]
    partition_id = max(taken, default=-1) + 1 if known is None else known.partition_id
    num_partitions = max(federation.num_partitions, partition_id + 1)
    supernode, sealing = create_supernode_key(name), create_sealing_key()
    files = site_files(
        name,
        partition_id=partition_id,
        num_partitions=num_partitions,
        sealed=federation.sealed,
        coordinator=CoordinatorEntry(
            address=federation.address, port=federation.port, fedcomp=fedcomp.__version__, flwr=version("flwr")
        ),
        ca_certificate=authority,
        supernode_key=supernode,
        sealing_key=sealing,
        server_sealing_key=public_text(load_key(folder.sealing / SERVER_KEY).public_key()),
    )
    write_private(folder.archive(name), pack(name, files, now=now), replace=replace)
    write_private(folder.supernode_key(name), supernode.public, replace=replace)
    entry = SiteEntry(
        partition_id=partition_id, supernode_key=supernode.public.decode().strip(), sealing_key=sealing.public
    )
    return federation.with_site(name, entry).model_copy(update={"num_partitions": num_partitions})
