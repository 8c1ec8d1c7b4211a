from __future__ import annotations

import sys
import tarfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedcomp.commands import main
from fedcomp.errors import ConfigError
from fedcomp.site.authority import issue_server
from fedcomp.site.errors import BadFederation, BadHost, NotWritten, ProfileError, SiteRevoked
from fedcomp.site.federation import FederationFolder
from fedcomp.site.renewal import load_authority
from fedcomp.site.supernode_keys import public_pem, read_private_key
from tests.support.tls_server import Behaviour, serving


def run(*words: str | Path, code: int = 0) -> Result:
    result = CliRunner().invoke(main.app, ["site", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def federation(tmp_path: Path) -> Path:
    folder = tmp_path / "federation"
    run("init", folder, "--name", "hospital", "--name", "bank", "--host", "127.0.0.1", "--port", "18443")
    return folder


@pytest.fixture
def site(federation: Path, tmp_path: Path) -> Path:
    with tarfile.open(federation / "archives" / "bank.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "bank"


def test_init_says_what_it_made_and_what_to_do_next(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    output = run("init", folder, "--sites", "2", "--host", "fl.example.org", "--days", "90").output
    assert f"for site-1: {folder}/archives/site-1.tar.gz" in output
    assert f"what to do next is in {folder}/README.md" in output
    assert "3,650 days" in output
    assert "90 days" in output
    # The unit starts the programs that are beside this Python.
    unit = (folder / "deploy" / "fedcomp-coordinator.service").read_text()
    assert f"ExecStart={Path(sys.executable).parent}/flower-superlink " in unit
    assert 'sealing = "sealing"' in _profile(folder, "site-1").splitlines()


def test_init_takes_other_choices(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    words = ("--name", "a", "--host", "192.0.2.7", "--host", "fl.example.org", "--port", "443", "--local-port", "9999")
    run("init", folder, *words, "--partitions", "5", "--unsealed", "--authority-days", "100")
    federation = FederationFolder(folder).load()
    assert (federation.address, federation.port, federation.local_port) == ("192.0.2.7", 443, 9999)
    assert (federation.num_partitions, federation.sealed) == (5, False)
    assert "fl.example.org" in federation.hosts
    assert 'sealing = "sealing"' not in _profile(folder, "a").splitlines()
    with pytest.raises(NotWritten, match="is not empty"):
        run("init", folder, *words)
    run("init", folder, *words, "--force")


def test_init_needs_sites_and_a_host(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--sites None"):
        run("init", tmp_path / "a", "--host", "localhost")
    with pytest.raises(BadHost, match="give --host NAME, the name or address by which sites reach"):
        run("init", tmp_path / "a", "--sites", "2")
    assert not (tmp_path / "a").exists()


def test_show(federation: Path) -> None:
    output = run("show", federation).output
    assert "sites reach the coordinator at 127.0.0.1, port 18443" in output
    assert "authority: until 20" in output
    assert "365 days" in output
    rows = [line for line in output.splitlines() if "SHA256" in line and "of 2" in line]
    assert len(rows) == 2
    assert "hospital" in rows[0]
    assert all("still here" in row and "active" in row for row in rows)
    with pytest.raises(BadFederation, match="make one with `fedcomp site init`"):
        run("show", federation.parent / "nothing")


def test_renew(federation: Path) -> None:
    before = (federation / "authority" / "ca.crt").read_bytes()
    output = run("renew", federation, "--host", "new.example.org", "--days", "30").output
    assert "30 days" in output
    assert "restart the SuperLink and reload nginx" in output
    assert (federation / "authority" / "ca.crt").read_bytes() == before
    output = run("renew", federation, "--authority", "--authority-days", "50").output
    assert f"send {federation}/authority/ca.crt to the sites" in output
    assert (federation / "authority" / "ca.crt").read_bytes() != before
    assert "new.example.org" in FederationFolder(federation).load().hosts


def test_certificates_that_ended_are_shown_so(tmp_path: Path) -> None:
    run("init", tmp_path / "made", "--sites", "1", "--host", "localhost")
    folder = FederationFolder(tmp_path / "made")
    old = issue_server(load_authority(folder), ["localhost"], now=datetime(2020, 1, 1, tzinfo=UTC), days=1)
    folder.server_certificate.write_bytes(old.certificate_pem())
    assert "ENDED 2020-01-02 00:00 UTC; run `fedcomp site renew`" in run("show", folder.path).output


def test_add(federation: Path) -> None:
    output = run("add", "clinic", federation).output
    assert f"for clinic: {federation}/archives/clinic.tar.gz" in output
    assert f"fedcomp site sync {federation}" in output
    assert "num-partitions is 3 now" in output


def test_a_revocation_that_the_superlink_did_not_hear_of_fails(federation: Path) -> None:
    result = run("revoke", "bank", federation, code=1)
    assert "the SuperLink was not told and still lets bank in" in result.output
    assert f"run this where it runs: fedcomp site sync {federation}" in result.output
    assert "site sync` had not registered it; if you did so by hand" in result.output
    assert "revoked 20" in run("show", federation).output
    with pytest.raises(SiteRevoked):
        run("revoke", "bank", federation)


def test_check_tells_what_is_wrong_and_exits_with_1(
    federation: Path, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    authority = load_authority(FederationFolder(federation))
    shown = issue_server(authority, ["127.0.0.1"], now=datetime.now(UTC))
    public = public_pem(read_private_key((site / "supernode.key").read_bytes()))
    behaviour = Behaviour(known={public})
    with serving(behaviour, shown, tmp_path) as port:
        profile = site / "site.toml"
        profile.write_text(profile.read_text().replace("port = 18443", f"port = {port}"))
        output = run("check", "--profile", profile).output
        assert [line.split()[0] for line in output.splitlines()] == ["ok"] * 12 + ["note"]
        behaviour.known.clear()
        (site / "supernode.key").chmod(0o644)
        result = run("check", "--profile", profile, code=1)
        assert [line.split()[0] for line in result.output.splitlines()].count("WRONG") == 2
        assert "2 of 13 checks found something wrong" in result.output
    monkeypatch.chdir(site)
    assert "is closed" in run("check", code=1).output
    with pytest.raises(ProfileError, match=r"none.toml cannot be read"):
        run("check", "--profile", "none.toml")


def test_an_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["fedcomp", "site", "check", "--profile", "/nowhere/site.toml"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("fedcomp: ProfileError: site profile /nowhere/site.toml cannot be read")
    assert said.count("\n") == 1


def _profile(folder: Path, name: str) -> str:
    with tarfile.open(folder / "archives" / f"{name}.tar.gz") as archive:
        file = archive.extractfile(f"{name}/site.toml")
        assert file is not None
        return file.read().decode()
