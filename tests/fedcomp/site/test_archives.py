from __future__ import annotations

import stat
import subprocess
import tarfile
import tomllib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from fedcomp.sealing.keys import load_key, public_text
from fedcomp.site.federation import FederationFolder
from fedcomp.site.profile import read_profile
from fedcomp.site.supernode_keys import read_private_key
from tests.fedcomp.site.conftest import NAMES

FILES = {
    "Dockerfile",
    "README.md",
    "ca.crt",
    "compose.yaml",
    "fedcomp-site.service",
    "sealing/sealing.key",
    "sealing/server.pub",
    "site.toml",
    "supernode.key",
}
SECRETS = ("sealing/sealing.key", "supernode.key")


@pytest.fixture
def unpacked(folder: FederationFolder, tmp_path: Path) -> Path:
    """All archives, unpacked as an administrator does, each in a folder of its site's name."""
    target = tmp_path / "unpacked"
    target.mkdir()
    for name in NAMES:
        subprocess.run(["tar", "xzf", str(folder.archive(name)), "-C", str(target)], check=True)
    return target


def test_an_archive_is_one_folder_for_its_owner_only(unpacked: Path) -> None:
    assert {path.name for path in unpacked.iterdir()} == set(NAMES)
    for name in NAMES:
        found = [path for path in (unpacked / name).rglob("*") if path.is_file()]
        assert {str(path.relative_to(unpacked / name)) for path in found} == FILES
        for path in (unpacked / name, *(unpacked / name).rglob("*")):
            assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_no_archive_holds_a_secret_of_anybody_else(folder: FederationFolder, unpacked: Path) -> None:
    everything = {name: b"".join(p.read_bytes() for p in (unpacked / name).rglob("*") if p.is_file()) for name in NAMES}
    secrets = {name: [(unpacked / name / path).read_bytes() for path in SECRETS] for name in NAMES}
    # What counts of a key is the text between its first and last line.
    cores = {name: [key.split(b"-----")[2].strip() for key in keys] for name, keys in secrets.items()}
    coordinator = [path.read_bytes() for path in (folder.ca_key, folder.server_key, folder.sealing / "server.key")]
    for name in NAMES:
        for other in NAMES:
            for core in cores[other]:
                assert (core in everything[name]) == (name == other), (name, other)
        for key in coordinator:
            assert key.split(b"-----")[2].strip() not in everything[name]
        for other in set(NAMES) - {name}:
            assert other.encode() not in everything[name]
    # Nor does the coordinator's folder keep what is a site's alone, but in the archive that is to be handed over.
    kept = [path for path in folder.path.rglob("*") if path.is_file() and path.parent.name != "archives"]
    assert not [path for path in kept for keys in cores.values() for core in keys if core in path.read_bytes()]


def test_a_site_has_the_keys_that_the_coordinator_expects(folder: FederationFolder, unpacked: Path) -> None:
    server = public_text(load_key(folder.sealing / "server.key").public_key())
    for name, site in folder.load().sites.items():
        mine = unpacked / name
        assert public_text(load_key(mine / "sealing" / "sealing.key").public_key()) == site.sealing_key
        assert (mine / "sealing" / "server.pub").read_text() == f"{server}\n"
        assert (mine / "ca.crt").read_bytes() == folder.ca_certificate.read_bytes()
        private = read_private_key((mine / "supernode.key").read_bytes())
        public = serialization.load_ssh_public_key(folder.supernode_key(name).read_bytes())
        assert private.public_key() == public
        assert folder.supernode_key(name).read_text().strip() == site.supernode_key


def test_a_profile_says_where_to_go(unpacked: Path) -> None:
    for partition, name in enumerate(NAMES):
        profile = read_profile(unpacked / name / "site.toml")
        assert (profile.name, profile.partition_id, profile.num_partitions) == (name, partition, 3)
        assert profile.coordinator is not None
        assert (profile.coordinator.address, profile.coordinator.port) == ("fl.example.org", 8443)
        assert profile.sealing == "sealing"
        for file in (profile.coordinator.ca, profile.coordinator.key):
            assert (unpacked / name / file).is_file()
        versions = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())
        assert profile.coordinator.fedcomp == versions["project"]["version"]


def test_the_guide_of_a_site_names_its_own_files(unpacked: Path) -> None:
    text = (unpacked / "bank" / "README.md").read_text()
    for file in ("supernode.key", "sealing/sealing.key", "site.toml", "fedcomp-site.service", "ca.crt", "Dockerfile"):
        assert file in text
        assert (unpacked / "bank" / file).is_file()
    assert "`fl.example.org`, TCP port 8443" in text


def test_nothing_in_an_archive_can_leave_its_folder(folder: FederationFolder) -> None:
    with tarfile.open(folder.archive("bank")) as archive:
        for entry in archive:
            assert entry.isfile() or entry.isdir()
            assert entry.name == "bank" or entry.name.startswith("bank/")
            assert ".." not in entry.name
