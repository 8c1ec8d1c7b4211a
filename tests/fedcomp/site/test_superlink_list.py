"""How the SuperLink's list is kept in line; Flower's own command is played by a script that keeps a list in a file."""

from __future__ import annotations

import json
import shutil
import sys
from datetime import datetime
from pathlib import Path

import pytest

from fedcomp.site.errors import SuperLinkRefused
from fedcomp.site.federation import FederationFolder
from fedcomp.site.membership import add_site, revoke_site
from fedcomp.site.superlink_list import synchronize

FLWR = """#!{python}
import json, os, pathlib, sys, zlib
path = pathlib.Path(os.environ["FLWR_HOME"]) / "nodes.json"
nodes = json.loads(path.read_text()) if path.exists() else {{}}
command, rest = sys.argv[2], sys.argv[3:]
answer = {{"success": True}}
if os.environ.get("FLWR_AWAY") == command:
    answer = {{"success": False, "error-message": "Connection to the SuperLink\\n is unavailable."}}
elif command == "list":
    answer["nodes"] = [{{"node-id": key}} for key in nodes]
elif command == "register":
    public = pathlib.Path(rest[0]).read_text()
    if public in nodes.values():
        answer = {{"success": False, "error-message": "[code: 23] Public key already in use."}}
    else:
        answer["node-id"] = str(zlib.crc32(public.encode()))
        nodes[answer["node-id"]] = public
elif command == "unregister":
    del nodes[rest[0]]
path.write_text(json.dumps(nodes))
print("Using SuperLink: coordinator")
print(json.dumps(answer, indent=1))
"""


@pytest.fixture(autouse=True)
def flwr(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "bin" / "flwr"
    program.parent.mkdir()
    program.write_text(FLWR.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: str(program))
    return program


def known(folder: FederationFolder) -> dict[str, str]:
    nodes: dict[str, str] = json.loads((folder.flwr / "nodes.json").read_text())
    return nodes


def test_the_list_follows_the_federation(folder: FederationFolder, now: datetime) -> None:
    lines = list(synchronize(folder.path))
    sites = folder.load().sites
    assert lines == [f"{name} is registered as node {site.node_id}" for name, site in sites.items()]
    assert known(folder) == {site.node_id: f"{site.supernode_key}\n" for site in sites.values()}
    assert list(synchronize(folder.path)) == []
    revoke_site(folder.path, "bank", now=now)
    add_site(folder.path, "factory", now=now, force=True)
    again = list(synchronize(folder.path))
    after = folder.load()
    assert again == [
        f"node {sites['bank'].node_id} is unregistered",
        f"node {sites['factory'].node_id} is unregistered",
        f"factory is registered as node {after.sites['factory'].node_id}",
    ]
    assert after.retired == ()
    assert set(known(folder)) == {after.sites["hospital"].node_id, after.sites["factory"].node_id}


def test_a_superlink_that_forgot_everything_is_told_again(folder: FederationFolder, now: datetime) -> None:
    list(synchronize(folder.path))
    before = known(folder)
    (folder.flwr / "nodes.json").unlink()
    assert len(list(synchronize(folder.path))) == 3
    assert known(folder) == before
    # Nor is it asked to forget whom it does not know.
    revoke_site(folder.path, "bank", now=now)
    (folder.flwr / "nodes.json").unlink()
    assert len(list(synchronize(folder.path))) == 3
    assert len(known(folder)) == 2
    assert folder.load().retired == ()


def test_what_was_registered_by_hand_is_left_and_said(folder: FederationFolder) -> None:
    (folder.flwr / "nodes.json").write_text(json.dumps({"7": folder.supernode_key("bank").read_text()}))
    lines = list(synchronize(folder.path))
    assert "bank was registered by hand before" in lines[1]
    assert [name for name, site in folder.load().sites.items() if site.node_id] == ["hospital", "factory"]


@pytest.mark.parametrize("command", ["list", "register"])
def test_a_superlink_that_is_away(folder: FederationFolder, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("FLWR_AWAY", command)
    message = f"`flwr supernode {command}` failed: Connection to the SuperLink is unavailable. .FLWR_HOME="
    with pytest.raises(SuperLinkRefused, match=message):
        list(synchronize(folder.path))


def test_other_output_is_shown(folder: FederationFolder, flwr: Path) -> None:
    flwr.write_text("#!/bin/sh\necho broken >&2\n")
    with pytest.raises(SuperLinkRefused, match="failed: broken"):
        list(synchronize(folder.path))


def test_without_flwr(folder: FederationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    with pytest.raises(SuperLinkRefused, match="flwr was not found on the PATH"):
        list(synchronize(folder.path))
