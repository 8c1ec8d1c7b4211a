"""The SuperLink's own list of SuperNodes, brought in line with the federation by Flower's command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedcomp.site.errors import SuperLinkRefused
from fedcomp.site.federation import FederationFolder
from fedcomp.site.programs import FLOWER_ENVIRONMENT

_CONNECTION = "coordinator"
_SECONDS = 60.0
_CODE_KEY_IN_USE = "[code: 23]"


class _KeyInUse(SuperLinkRefused):
    """The SuperLink has this key already."""


def synchronize(path: Path) -> Iterator[str]:
    """Register the sites that the SuperLink does not know, and unregister what was revoked or got new keys.

    The SuperLink must be running on this host. Yields one line for each change when it is made and noted; what an error
    leaves undone the next call does.

    Raises
    ------
    BadFederation
        When the folder is none.
    SuperLinkRefused
        When Flower's command fails.
    """
    folder = FederationFolder(path.absolute())
    federation = folder.load()
    known = {str(node["node-id"]) for node in _flwr(folder, "list", _CONNECTION)["nodes"]}
    for node_id in federation.retired:
        if node_id in known:
            _flwr(folder, "unregister", node_id, _CONNECTION)
        left = tuple(other for other in federation.retired if other != node_id)
        federation = federation.model_copy(update={"retired": left})
        folder.save(federation, replace=True)
        yield f"node {node_id} is unregistered"
    for name, site in federation.active.items():
        if site.node_id in known:
            continue
        try:
            made = _flwr(folder, "register", str(folder.supernode_key(name)), _CONNECTION, "--name", name)
        except _KeyInUse:
            yield f"{name} was registered by hand before; its node id is not known here, so revoke it by hand too"
            continue
        entry = site.model_copy(update={"node_id": str(made["node-id"])})
        federation = federation.model_copy(update={"sites": {**federation.sites, name: entry}})
        folder.save(federation, replace=True)
        yield f"{name} is registered as node {entry.node_id}"


def _flwr(folder: FederationFolder, *words: str) -> dict[str, Any]:
    """Return what ``flwr supernode …`` says, in the form that it has for programs."""
    program = shutil.which("flwr", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if program is None:
        raise SuperLinkRefused("flwr was not found on the PATH; install it beside fedcomp")
    what = f"`flwr supernode {words[0]}`"
    try:
        done = subprocess.run(
            [program, "supernode", *words, "--format", "json"],
            env={**os.environ, **FLOWER_ENVIRONMENT, "FLWR_HOME": str(folder.flwr)},
            cwd=folder.path,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SuperLinkRefused(f"{what} gave no answer in {_SECONDS:g} s; is the SuperLink running here?") from error
    # A line for people may come first.
    start = done.stdout.find("{")
    try:
        answer = dict(json.loads(done.stdout[start:])) if start >= 0 else {}
    except ValueError:
        answer = {}
    if not answer.get("success"):
        said = " ".join(str(answer.get("error-message") or done.stdout + done.stderr).split())[-300:]
        kind = _KeyInUse if _CODE_KEY_IN_USE in said else SuperLinkRefused
        raise kind(f"{what} failed: {said} (FLWR_HOME={folder.flwr}); is the SuperLink running on this host?")
    return answer
