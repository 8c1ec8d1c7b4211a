from __future__ import annotations

import tarfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedcomp.site.errors import BadFederation, BadSiteName, SiteExists, SiteRevoked, UnknownSiteName
from fedcomp.site.federation import Federation, FederationFolder
from fedcomp.site.membership import add_site, revoke_site
from fedcomp.site.profile import SiteProfile

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def with_node_id(folder: FederationFolder, name: str, node_id: str) -> Federation:
    federation = folder.load()
    site = federation.sites[name].model_copy(update={"node_id": node_id})
    federation = federation.model_copy(update={"sites": {**federation.sites, name: site}})
    folder.save(federation, replace=True)
    return federation


def listed(folder: FederationFolder) -> list[str]:
    return list(tomllib.loads((folder.sealing / "sites.toml").read_text())["sites"])


def profile_in(archive: Path, name: str) -> SiteProfile:
    with tarfile.open(archive) as opened:
        file = opened.extractfile(f"{name}/site.toml")
        assert file is not None
        return SiteProfile.model_validate(tomllib.loads(file.read().decode()))


def test_an_added_site_gets_an_archive_and_is_on_the_list(folder: FederationFolder) -> None:
    before = folder.load()
    after = add_site(folder.path, "clinic", now=NOW)
    assert folder.load() == after
    assert listed(folder) == ["hospital", "bank", "factory", "clinic"]
    assert after.num_partitions == 4
    profile = profile_in(folder.archive("clinic"), "clinic")
    assert (profile.partition_id, profile.num_partitions) == (3, 4)
    assert folder.supernode_key("clinic").exists()
    assert {name: after.sites[name] for name in before.sites} == before.sites
    assert "min-clients=4" in (folder.path / "README.md").read_text()


def test_a_site_that_is_there_gets_new_keys_only_when_asked(folder: FederationFolder) -> None:
    before = with_node_id(folder, "bank", "17")
    with pytest.raises(SiteExists, match="'bank' is there already; use --force"):
        add_site(folder.path, "bank", now=NOW)
    assert folder.load() == before
    after = add_site(folder.path, "bank", now=NOW, force=True)
    old, new = before.sites["bank"], after.sites["bank"]
    assert (new.partition_id, new.node_id) == (old.partition_id, "")
    assert new.supernode_key != old.supernode_key
    assert new.sealing_key != old.sealing_key
    assert after.retired == ("17",)
    assert after.num_partitions == 3


def test_a_revoked_site_is_off_the_list_and_its_archive_gone(folder: FederationFolder) -> None:
    with_node_id(folder, "bank", "17")
    after = revoke_site(folder.path, "bank", now=NOW)
    assert folder.load() == after
    assert listed(folder) == ["hospital", "factory"]
    assert after.sites["bank"].revoked == "2026-12-01"
    assert after.retired == ("17",)
    assert not folder.archive("bank").exists()
    assert "min-clients=2" in (folder.path / "README.md").read_text()
    with pytest.raises(SiteRevoked, match="'bank' was revoked on 2026-12-01 already"):
        revoke_site(folder.path, "bank", now=NOW)
    # Its partition stays its own, and with new keys it is back.
    assert add_site(folder.path, "clinic", now=NOW).sites["clinic"].partition_id == 3
    assert add_site(folder.path, "bank", now=NOW, force=True).sites["bank"].partition_id == 1
    assert listed(folder) == ["hospital", "bank", "factory", "clinic"]


def test_names_that_are_not_there_or_cannot_be(folder: FederationFolder, tmp_path: Path) -> None:
    with pytest.raises(UnknownSiteName, match="no site 'clinic' in this federation; its sites: hospital, bank, fac"):
        revoke_site(folder.path, "clinic", now=NOW)
    with pytest.raises(BadSiteName):
        add_site(folder.path, "../clinic", now=NOW)
    with pytest.raises(BadFederation, match=r"federation.toml is missing; make one with `fedcomp site init`"):
        add_site(tmp_path, "clinic", now=NOW)


@pytest.mark.parametrize(
    ("text", "message"),
    [("address = ", "cannot be read"), ('address = "a"', "port: Field required"), ("port = 70000", "less than or eq")],
)
def test_a_damaged_list_is_named(folder: FederationFolder, text: str, message: str) -> None:
    folder.settings.write_text(text)
    with pytest.raises(BadFederation, match=message):
        folder.load()
