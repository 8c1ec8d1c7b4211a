"""Checks of what came out of a site's archive: certificate of the authority, keys, who may read them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from fedcomp.sealing.errors import SealingKeyError
from fedcomp.sealing.keys import SERVER_PUBLIC, SITE_KEY, load_key, load_public
from fedcomp.site.authority import fingerprint, read_certificate
from fedcomp.site.errors import BadCertificate, BadKey
from fedcomp.site.files import is_private
from fedcomp.site.findings import Finding, note, ok, wrong
from fedcomp.site.profile import CoordinatorEntry, SiteProfile, resolve
from fedcomp.site.supernode_keys import read_private_key

_SOON = timedelta(days=30)


def check_files(profile: SiteProfile, path: Path, *, now: datetime) -> list[Finding]:
    """Return what is to say about the files that the profile at ``path`` names."""
    found = []
    if profile.coordinator is not None:
        found += [_authority(profile.coordinator, path, now=now), _supernode_key(profile.coordinator, path)]
    found.append(_sealing(profile, path))
    return found


def _authority(coordinator: CoordinatorEntry, path: Path, *, now: datetime) -> Finding:
    what, file = "authority", resolve(path, coordinator.ca)
    try:
        certificate = read_certificate(file.read_bytes())
    except OSError as error:
        return wrong(what, f"{file} cannot be read: {error.strerror}; it is in the site's archive")
    except BadCertificate as error:
        return wrong(what, f"{file}: {error}; take it out of the site's archive again")
    end = certificate.not_valid_after_utc
    if end < now:
        return wrong(what, f"{file} ended on {end:%Y-%m-%d}; ask the coordinator for the renewed ca.crt")
    says = f"until {end:%Y-%m-%d}, {fingerprint(certificate)}"
    if end - now < _SOON:
        return note(what, f"{says}; ask the coordinator for the renewed ca.crt")
    return ok(what, says)


def _supernode_key(coordinator: CoordinatorEntry, path: Path) -> Finding:
    what, file = "SuperNode key", resolve(path, coordinator.key)
    try:
        read_private_key(file.read_bytes())
        return _exposed(what, file) or ok(what, f"{file}, readable by its owner only")
    except OSError as error:
        return wrong(what, f"{file} cannot be read: {error.strerror}; is this the SuperNode's user, and {_IN_ARCHIVE}?")
    except BadKey as error:
        return wrong(what, f"{file}: {error}")


_IN_ARCHIVE = "is the file there, as in the archive"


def _sealing(profile: SiteProfile, path: Path) -> Finding:
    what = "sealing"
    if profile.sealing is None:
        return note(what, "off: site.toml names no sealing folder, so messages may travel unsealed (TLS alone)")
    folder = resolve(path, profile.sealing)
    private = folder / SITE_KEY
    try:
        exposed = _exposed(what, private) if private.exists() else None
        if exposed is None:
            load_key(private)
            load_public(folder / SERVER_PUBLIC)
        return exposed or ok(what, f"on, keys in {folder}")
    except SealingKeyError as error:
        return wrong(what, f"{error}; take the folder out of the site's archive again")


def _exposed(what: str, file: Path) -> Finding | None:
    if is_private(file):
        return None
    return wrong(what, f"{file} can be read or written by others; run: chmod 600 {file}")
