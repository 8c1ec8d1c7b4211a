"""What a site gets: one archive with its own secrets, the public keys it must trust, and nothing of any other site."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from fedcomp.sealing.keys import SERVER_PUBLIC, SITE_KEY
from fedcomp.site import containers, guides
from fedcomp.site.files import FOLDER, PRIVATE
from fedcomp.site.profile import PROFILE_FILE, CoordinatorEntry
from fedcomp.site.profile_text import profile_text
from fedcomp.site.programs import supernode_command
from fedcomp.site.sealing_keys import SealingKey
from fedcomp.site.supernode_keys import SuperNodeKey
from fedcomp.site.units import SITE_UNIT, site_unit

# Where the guide puts things at a site.
SITE_FOLDER, PROGRAMS, STATE, USER = Path("/etc/fedcomp"), Path("/opt/fedcomp/bin"), Path("/var/lib/fedcomp"), "fedcomp"


def site_files(
    name: str,
    *,
    partition_id: int,
    num_partitions: int,
    sealed: bool,
    coordinator: CoordinatorEntry,
    ca_certificate: bytes,
    supernode_key: SuperNodeKey,
    sealing_key: SealingKey,
    server_sealing_key: str,
) -> dict[str, bytes]:
    """Return the files of a site's archive by their path in it."""
    version = coordinator.fedcomp
    unit = site_unit(SITE_FOLDER / PROFILE_FILE, coordinator, programs=PROGRAMS, user=USER, state=STATE)
    compose = containers.site_compose(supernode_command(Path("/site") / PROFILE_FILE, coordinator), version=version)
    texts = {
        "README.md": guides.site_guide(name, coordinator),
        PROFILE_FILE: profile_text(name, partition_id, num_partitions, coordinator, sealed=sealed),
        SITE_UNIT: unit,
        containers.COMPOSE_FILE: compose,
        containers.DOCKERFILE: containers.dockerfile(version, containers.DOCKERFILE),
        f"sealing/{SERVER_PUBLIC}": f"{server_sealing_key}\n",
    }
    return {
        **{path: text.encode() for path, text in texts.items()},
        coordinator.ca: ca_certificate,
        coordinator.key: supernode_key.private,
        f"sealing/{SITE_KEY}": sealing_key.private,
    }


def pack(name: str, files: Mapping[str, bytes], *, now: datetime) -> bytes:
    """Return a tar.gz of the files in one folder ``name``; all that comes out of it is for its owner only."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=int(now.timestamp())) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        parents = {parent for path in files for parent in Path(path).parents if parent != Path()}
        for folder in ("", *sorted(str(parent) for parent in parents)):
            entry = tarfile.TarInfo(f"{name}/{folder}".rstrip("/"))
            entry.type, entry.mode, entry.mtime = tarfile.DIRTYPE, FOLDER, int(now.timestamp())
            archive.addfile(entry)
        for path, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{name}/{path}")
            entry.size, entry.mode, entry.mtime = len(data), PRIVATE, int(now.timestamp())
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
