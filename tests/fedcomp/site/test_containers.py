"""The Compose files are read as YAML and what they must say is looked for; nothing here starts a container."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from fedcomp.site.federation import FederationFolder
from fedcomp.site.profile import read_profile

ROOT = Path(__file__).resolve().parents[3]
# What Compose allows in a service, as far as these files use it.
SERVICE_KEYS = {
    "command",
    "depends_on",
    "environment",
    "image",
    "init",
    "network_mode",
    "ports",
    "pull_policy",
    "restart",
    "stop_grace_period",
    "tmpfs",
    "user",
    "volumes",
    "working_dir",
}


def compose(text: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(text)
    assert set(found) == {"services"}
    for service in found["services"].values():
        assert set(service) <= SERVICE_KEYS
        assert isinstance(service["command"], list)
        assert all(isinstance(value, str) for value in service.get("environment", {}).values())
    services: dict[str, Any] = found["services"]
    return services


def test_sites_reach_the_coordinators_proxy_and_nothing_else(folder: FederationFolder) -> None:
    services = compose((folder.deploy / "compose.yaml").read_text())
    superlink, proxy = services["superlink"], services["proxy"]
    # The proxy is in the SuperLink's network, whose loopback nobody else reaches; one port is open.
    assert proxy["network_mode"] == "service:superlink"
    assert superlink["ports"] == ["8443:8443"]
    assert superlink["command"][:3] == ["flower-superlink", "--host", "127.0.0.1"]
    assert superlink["environment"]["FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION"] == "1"
    assert superlink["environment"]["FEDCOMP_SEALING"] == str(folder.sealing)
    # All paths are the host's own, which the folder's files know each other by.
    assert superlink["volumes"] == [f"{folder.path}:{folder.path}"]
    assert proxy["volumes"] == [f"{folder.path}:{folder.path}:ro"]
    assert proxy["command"][2] == str(folder.deploy / "nginx.conf")
    owner = folder.path.stat()
    assert superlink["user"] == proxy["user"] == f"{owner.st_uid}:{owner.st_gid}"


def test_a_sites_container_finds_profile_and_keys(folder: FederationFolder, tmp_path: Path) -> None:
    with tarfile.open(folder.archive("bank")) as archive:
        archive.extractall(tmp_path, filter="data")
    service = compose((tmp_path / "bank" / "compose.yaml").read_text())["supernode"]
    mounts = dict(volume.split(":")[:2] for volume in service["volumes"])
    assert mounts == {".": "/site", "./state": "/state"}
    words = service["command"]
    assert words[words.index("--node-config") + 1] == 'profile="/site/site.toml"'
    for option in ("--root-certificates", "--auth-supernode-private-key"):
        inside = words[words.index(option) + 1]
        assert (tmp_path / "bank" / Path(inside).relative_to("/site")).is_file()
    assert service["environment"]["FEDCOMP_HOME"] == "/state/fedcomp"
    assert read_profile(tmp_path / "bank" / "site.toml").name == "bank"


def test_the_image_is_made_of_what_a_checkout_has(folder: FederationFolder) -> None:
    lines = (folder.deploy / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY ") for word in line.split()[1:-1]]
    assert copied
    for name in copied:
        assert (ROOT / name).exists(), name
    built = {"pyproject.toml", "README.md", "LICENSE", "constraints.txt", "fedcomp", "server_app", "client_app"}
    assert built <= set(copied)
    version = (folder.deploy / "compose.yaml").read_text().partition("image: fedcomp:")[2].split()[0]
    assert f"--tag fedcomp:{version}" in lines[1]
