"""``fedcomp site up``: a site's SuperNode, kept up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedcomp.commands.keep_up import keep_up_until_signal
from fedcomp.site.check_machine import check_versions
from fedcomp.site.errors import ProfileError, WrongVersion
from fedcomp.site.findings import Verdict
from fedcomp.site.profile import PROFILE_FILE, read_profile
from fedcomp.site.programs import site_program


def up(
    profile: Annotated[Path, typer.Option(help="The site's profile.")] = Path(PROFILE_FILE),
    state: Annotated[
        Path | None, typer.Option(help="Folder of the log and of Flower's files; by default beside the profile.")
    ] = None,
) -> None:
    """Keep this site's SuperNode up until Ctrl-C or SIGTERM; for a host without systemd.

    A site with other versions than the coordinator's does not start.
    """
    path = profile.absolute()
    found = read_profile(path)
    if found.coordinator is None:
        raise ProfileError(
            f"site profile {path} has no [coordinator]; take it from the archive that the site was given"
        )
    bad = [finding.says for finding in check_versions(found.coordinator) if finding.verdict is Verdict.WRONG]
    if bad:
        raise WrongVersion("; ".join(bad))
    folder = (state or path.parent / "state").absolute()
    keep_up_until_signal(
        site_program(path, found.coordinator, state=folder, programs=Path(sys.executable).parent.absolute())
    )
