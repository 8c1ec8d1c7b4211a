"""All checks of a site, in the order in which an administrator would look."""

from __future__ import annotations

from pathlib import Path

from fedcomp.site.check_connection import Clock, check_connection
from fedcomp.site.check_files import check_files
from fedcomp.site.check_machine import check_machine
from fedcomp.site.findings import Finding, note, ok
from fedcomp.site.profile import read_profile


def check_site(path: Path, *, clock: Clock) -> list[Finding]:
    """Return what is to say about the site whose profile lies at ``path``; ``clock`` is this machine's.

    Raises
    ------
    ProfileError
        When the profile cannot be used: nothing else can be checked then.
    """
    profile = read_profile(path)
    found = [ok("profile", f"{path}: site {profile.name}"), *check_files(profile, path, now=clock())]
    if profile.coordinator is None:
        found.append(note("coordinator", "site.toml has no [coordinator], so the way there is not checked"))
    else:
        found += check_connection(profile.coordinator, path, clock=clock)
    return found + check_machine(profile, path)
