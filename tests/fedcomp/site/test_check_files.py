from __future__ import annotations

import tarfile
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from fedcomp.site.check_files import check_files
from fedcomp.site.federation import FederationFolder
from fedcomp.site.findings import Finding, Verdict
from fedcomp.site.profile import read_profile


@pytest.fixture
def site(folder: FederationFolder, tmp_path: Path) -> Path:
    with tarfile.open(folder.archive("bank")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "bank"


def check(site: Path, now: datetime) -> dict[str, Finding]:
    path = site / "site.toml"
    return {finding.what: finding for finding in check_files(read_profile(path), path, now=now)}


def test_all_is_well(site: Path, now: datetime) -> None:
    found = check(site, now)
    assert list(found) == ["authority", "SuperNode key", "sealing"]
    assert {finding.verdict for finding in found.values()} == {Verdict.OK}


@pytest.mark.parametrize(
    ("what", "file", "text"),
    [
        ("authority", "ca.crt", b"nothing"),
        ("SuperNode key", "supernode.key", b"nothing"),
        ("sealing", "sealing/sealing.key", b"nothing"),
        ("sealing", "sealing/server.pub", b"nothing"),
        ("sealing", "sealing/server.pub", b"\xff\xfe"),
    ],
)
def test_a_file_is_damaged_or_gone(site: Path, now: datetime, what: str, file: str, text: bytes) -> None:
    (site / file).write_bytes(text)
    assert check(site, now)[what].verdict is Verdict.WRONG
    assert "archive again" in check(site, now)[what].says
    (site / file).unlink()
    gone = check(site, now)[what]
    assert gone.verdict is Verdict.WRONG
    assert f"{site / file} cannot be read: No such file" in gone.says


@pytest.mark.parametrize(("what", "file"), [("SuperNode key", "supernode.key"), ("sealing", "sealing/sealing.key")])
def test_a_secret_that_others_can_read(site: Path, now: datetime, what: str, file: str) -> None:
    (site / file).chmod(0o640)
    found = check(site, now)[what]
    assert found.verdict is Verdict.WRONG
    assert f"run: chmod 600 {site / file}" in found.says


def test_the_authority_ends(site: Path, now: datetime) -> None:
    soon = check(site, now + timedelta(days=3630))["authority"]
    assert soon.verdict is Verdict.NOTE
    over = check(site, now + timedelta(days=3651))["authority"]
    assert over.verdict is Verdict.WRONG
    for found in (soon, over):
        assert "ask the coordinator for the renewed ca.crt" in found.says


def test_a_site_that_does_not_seal_is_told_so(site: Path, now: datetime) -> None:
    text = (site / "site.toml").read_text()
    (site / "site.toml").write_text(text.replace('sealing = "sealing"', ""))
    assert check(site, now)["sealing"].verdict is Verdict.NOTE
