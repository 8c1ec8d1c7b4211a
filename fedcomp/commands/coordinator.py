"""``fedcomp coordinator``: the coordinator's SuperLink, kept up."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fedcomp.commands.keep_up import keep_up_until_signal, say
from fedcomp.commands.program import program
from fedcomp.site.errors import SuperLinkRefused
from fedcomp.site.federation import FederationFolder
from fedcomp.site.programs import coordinator_program
from fedcomp.site.superlink_list import synchronize

app = typer.Typer(help="Run the coordinator of a federation of real sites.", no_args_is_help=True)


@app.callback()
def coordinator() -> None:
    """Run the coordinator of a federation of real sites."""


@app.command("up")
def up(
    folder: Annotated[Path, typer.Argument(help="The folder that `fedcomp site init` made.")] = Path("federation"),
) -> None:
    """Keep the SuperLink up until Ctrl-C or SIGTERM, and let the sites in; for a host without systemd.

    It listens on loopback; sites come through the proxy whose configuration lies in the folder.
    """
    paths = FederationFolder(folder.absolute())
    superlink = coordinator_program(paths, paths.load(), programs=Path(sys.executable).parent.absolute())

    def let_sites_in() -> None:
        try:
            for line in synchronize(paths.path):
                say(line)
        except SuperLinkRefused as error:
            say(f"sites could not be let in: {error}; try `{program()} site sync {folder}`")

    keep_up_until_signal(superlink, on_up=let_sites_in)
