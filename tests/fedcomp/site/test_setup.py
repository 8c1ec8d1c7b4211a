from __future__ import annotations

import stat
import tomllib
from datetime import datetime
from pathlib import Path

import pytest
from flwr.cli.flower_config import read_superlink_connection

from fedcomp.sealing.keys import load_key, public_text
from fedcomp.site.authority import Certified, hosts_of
from fedcomp.site.errors import BadHost, BadSiteName, NotWritten
from fedcomp.site.federation import FederationFolder
from fedcomp.site.setup import Plan, create_federation

HOSTS = ("fl.example.org", "192.0.2.7")
FILES = {
    "README.md",
    "archives/bank.tar.gz",
    "archives/factory.tar.gz",
    "archives/hospital.tar.gz",
    "authority/ca.crt",
    "authority/ca.key",
    "deploy/Dockerfile",
    "deploy/compose.yaml",
    "deploy/fedcomp-coordinator.service",
    "deploy/fedcomp-nginx.conf",
    "deploy/nginx.conf",
    "federation.toml",
    "flwr/config.toml",
    "sealing/server.key",
    "sealing/sites.toml",
    "server/server.key",
    "server/server.pem",
    "supernodes/bank.pub",
    "supernodes/factory.pub",
    "supernodes/hospital.pub",
}


def contents(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_everything_is_there_and_for_its_owner_only(folder: FederationFolder) -> None:
    assert set(contents(folder.path)) == FILES
    for path in (folder.path, *folder.path.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_the_server_certificate_is_of_the_authority_and_for_all_names(folder: FederationFolder) -> None:
    authority = Certified.from_pem(folder.ca_key.read_bytes(), folder.ca_certificate.read_bytes())
    server = Certified.from_pem(folder.server_key.read_bytes(), folder.server_certificate.read_bytes())
    server.certificate.verify_directly_issued_by(authority.certificate)
    # The proxy and Flower's commands reach the SuperLink on loopback.
    assert set(hosts_of(server.certificate)) == {*HOSTS, "localhost", "127.0.0.1"}


def test_the_list_of_sealing_keys_is_that_of_the_sites(folder: FederationFolder) -> None:
    listed = tomllib.loads((folder.sealing / "sites.toml").read_text())
    assert listed == {"sites": {name: site.sealing_key for name, site in folder.load().sites.items()}}
    assert list(listed["sites"]) == ["hospital", "bank", "factory"]
    assert public_text(load_key(folder.sealing / "server.key").public_key())


def test_flower_reads_the_connection(folder: FederationFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLWR_HOME", str(folder.flwr))
    for name in ("coordinator", None):
        connection = read_superlink_connection(name)
        assert connection.address == "127.0.0.1:9092"
        assert connection.root_certificates == str(folder.ca_certificate)


def test_the_guide_names_what_is_there(folder: FederationFolder) -> None:
    text = (folder.path / "README.md").read_text()
    for path in (folder.deploy / "fedcomp-coordinator.service", folder.deploy / "fedcomp-nginx.conf", folder.flwr):
        assert str(path) in text
        assert path.exists()
    assert f"fedcomp site sync {folder.path}" in text
    assert "min-clients=3 sealing='on'" in text


def test_a_folder_with_something_in_it_is_left_alone_unless_forced(folder: FederationFolder, now: datetime) -> None:
    before = contents(folder.path)
    plan = Plan(hosts=HOSTS, names=("bank",))
    with pytest.raises(NotWritten, match="is not empty; choose another folder, or use --force"):
        create_federation(folder.path, plan, now=now)
    assert contents(folder.path) == before
    create_federation(folder.path, plan, now=now, force=True)
    assert list(folder.load().sites) == ["bank"]
    assert folder.ca_key.read_bytes() != before["authority/ca.key"]


def test_a_link_in_the_folder_is_not_followed(tmp_path: Path, now: datetime) -> None:
    (tmp_path / "federation").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "federation" / "authority").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NotWritten, match="authority is a link"):
        create_federation(tmp_path / "federation", Plan(hosts=HOSTS, names=("bank",)), now=now, force=True)
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize(
    ("hosts", "names", "error"),
    [((), ("bank",), BadHost), (("a:b:c!",), ("bank",), BadHost), (HOSTS, ("../bank",), BadSiteName)],
)
def test_wrong_words_make_nothing(
    tmp_path: Path, now: datetime, hosts: tuple[str, ...], names: tuple[str, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        create_federation(tmp_path / "federation", Plan(hosts=hosts, names=names), now=now)
    assert not (tmp_path / "federation").exists()


def test_partitions_are_one_a_site_or_more(tmp_path: Path, now: datetime) -> None:
    for wanted, expected in ((None, 2), (1, 2), (10, 10)):
        plan = Plan(hosts=HOSTS, names=("a", "b"), partitions=wanted)
        made = create_federation(tmp_path / str(wanted), plan, now=now)
        assert made.num_partitions == expected
        assert [site.partition_id for site in made.sites.values()] == [0, 1]
