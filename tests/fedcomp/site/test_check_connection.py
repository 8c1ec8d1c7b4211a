"""Each thing that can be wrong on the way to the coordinator, against real TLS servers in this process."""

from __future__ import annotations

import socket
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fedcomp.site.authority import Certified, create_authority, issue_server
from fedcomp.site.check_connection import check_connection
from fedcomp.site.federation import FederationFolder
from fedcomp.site.findings import Finding, Verdict
from fedcomp.site.profile import CoordinatorEntry
from fedcomp.site.renewal import load_authority
from fedcomp.site.supernode_keys import public_pem, read_private_key
from tests.support.commands import free_ports
from tests.support.tls_server import Behaviour, serving

HOSTS = ("127.0.0.1", "localhost")


@pytest.fixture
def site(folder: FederationFolder, tmp_path: Path) -> Path:
    """The folder of a site, out of its archive."""
    with tarfile.open(folder.archive("bank")) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "bank"


@pytest.fixture
def authority(folder: FederationFolder) -> Certified:
    return load_authority(folder)


@pytest.fixture
def public(site: Path) -> bytes:
    return public_pem(read_private_key((site / "supernode.key").read_bytes()))


def check(site: Path, port: int, address: str = "127.0.0.1") -> dict[str, Finding]:
    entry = CoordinatorEntry(address=address, port=port)
    found = check_connection(entry, site / "site.toml", clock=lambda: datetime.now(UTC))
    return {finding.what: finding for finding in found}


def server(authority: Certified, hosts: tuple[str, ...] = HOSTS, *, days_ago: float = 0, days: float = 90) -> Certified:
    return issue_server(authority, hosts, now=datetime.now(UTC) - timedelta(days=days_ago), days=days)


def test_all_is_well(site: Path, authority: Certified, public: bytes, tmp_path: Path) -> None:
    behaviour = Behaviour(known={public})
    with serving(behaviour, server(authority), tmp_path) as port:
        found = check(site, port)
    assert list(found) == ["port", "clock", "certificate", "registration", "exposure"]
    assert {finding.verdict for finding in found.values()} == {Verdict.OK}, found
    assert "for localhost, 127.0.0.1, until" in found["certificate"].says
    assert behaviour.asked == [("GET", "/"), ("POST", "/v1/fleet/activate-node"), ("GET", "/openapi.json")]


def test_the_port_is_closed(site: Path) -> None:
    (port,) = free_ports(1)
    found = check(site, port)
    assert list(found) == ["port"]
    assert found["port"].verdict is Verdict.WRONG
    assert f"127.0.0.1, port {port} is closed" in found["port"].says


def test_the_name_is_not_known(site: Path) -> None:
    assert "the name no-such-host.invalid is not known here" in check(site, 443, "no-such-host.invalid")["port"].says


def test_nobody_answers(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silence(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(socket, "create_connection", silence)
    assert "does not answer; a firewall drops it" in check(site, 443)["port"].says


def test_the_server_speaks_no_tls(site: Path, tmp_path: Path) -> None:
    behaviour = Behaviour()
    with serving(behaviour, None, tmp_path) as port:
        found = check(site, port)
    assert list(found) == ["port", "TLS"]
    assert found["TLS"].verdict is Verdict.WRONG
    assert "answers, but not with TLS" in found["TLS"].says
    assert ("POST", "/v1/fleet/activate-node") not in behaviour.asked


@pytest.mark.parametrize(
    ("ahead", "verdict", "says"),
    [
        (timedelta(minutes=14), Verdict.WRONG, "clock is 14 min behind the coordinator's"),
        (timedelta(seconds=-9), Verdict.WRONG, "ahead of the coordinator's; 5 s ahead or 5 min behind is refused"),
        (timedelta(days=-400), Verdict.WRONG, "clock is 400 d"),
        (timedelta(minutes=4), Verdict.NOTE, "behind the coordinator's; let it be kept right"),
    ],
)
def test_the_clock_is_wrong(
    site: Path, authority: Certified, public: bytes, tmp_path: Path, ahead: timedelta, verdict: Verdict, says: str
) -> None:
    with serving(Behaviour(ahead=ahead, known={public}), server(authority), tmp_path) as port:
        found = check(site, port)
    assert found["clock"].verdict is verdict
    assert says in found["clock"].says.replace("13 min 59 s", "14 min").replace("14 min 1 s", "14 min")
    assert found["registration"].verdict is (Verdict.WRONG if verdict is Verdict.WRONG else Verdict.OK)
    if verdict is Verdict.WRONG:
        assert "refused this site's signature: the clock is wrong" in found["registration"].says


def test_a_server_that_does_not_say_the_time(site: Path, authority: Certified, public: bytes, tmp_path: Path) -> None:
    with serving(Behaviour(says_date=False, known={public}), server(authority), tmp_path) as port:
        assert check(site, port)["clock"].verdict is Verdict.NOTE


@pytest.mark.parametrize(
    ("shown", "says"),
    [
        (lambda _: server(create_authority("stranger", now=datetime.now(UTC))), "was issued by CN=stranger, which"),
        (lambda _: create_authority("alone", now=datetime.now(UTC)), "was issued by CN=alone, which is not the aut"),
        (lambda ours: server(ours, days_ago=3, days=2), "the server's certificate ended on 20"),
        (lambda ours: server(ours, days_ago=-3, days=10), "begins on 20"),
        (lambda ours: server(ours, ("fl.example.org",)), "is for fl.example.org, not for 127.0.0.1; use one of these"),
    ],
    ids=["wrong authority", "self-signed", "expired", "not yet", "wrong address"],
)
def test_the_certificate_is_wrong(
    site: Path, authority: Certified, tmp_path: Path, shown: Callable[[Certified], Certified], says: str
) -> None:
    behaviour = Behaviour()
    with serving(behaviour, shown(authority), tmp_path) as port:
        found = check(site, port)
    assert list(found) == ["port", "clock", "certificate"]
    assert found["certificate"].verdict is Verdict.WRONG
    assert says in found["certificate"].says
    # Whoever that is gets nothing by which the site could be known.
    assert ("POST", "/v1/fleet/activate-node") not in behaviour.asked


def test_the_certificate_is_for_another_name(site: Path, authority: Certified, tmp_path: Path) -> None:
    with serving(Behaviour(), server(authority, ("127.0.0.1",)), tmp_path) as port:
        found = check(site, port, "localhost")
    assert "is for 127.0.0.1, not for localhost" in found["certificate"].says


def test_a_certificate_that_ends_soon_is_a_note(
    site: Path, authority: Certified, public: bytes, tmp_path: Path
) -> None:
    with serving(Behaviour(known={public}), server(authority, days=20), tmp_path) as port:
        found = check(site, port)
    assert found["certificate"].verdict is Verdict.NOTE
    assert "tell the coordinator to renew it" in found["certificate"].says
    assert found["registration"].verdict is Verdict.OK


def test_the_authority_is_not_there(site: Path, authority: Certified, tmp_path: Path) -> None:
    (site / "ca.crt").unlink()
    with serving(Behaviour(), server(authority), tmp_path) as port:
        assert "cannot be checked with" in check(site, port)["certificate"].says


def test_the_key_is_not_registered(site: Path, authority: Certified, tmp_path: Path) -> None:
    with serving(Behaviour(), server(authority), tmp_path) as port:
        found = check(site, port)["registration"]
    assert found.verdict is Verdict.WRONG
    assert "does not know this site's key" in found.says


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (401, "refused this site's signature: the key file is damaged"),
        (404, "there is no Fleet API at this address"),
        (502, "the proxy answers, the SuperLink behind it does not"),
        (200, "an answer of another kind"),
    ],
)
def test_other_answers(site: Path, authority: Certified, tmp_path: Path, status: int, says: str) -> None:
    with serving(Behaviour(status=status), server(authority), tmp_path) as port:
        found = check(site, port)["registration"]
    assert found.verdict is Verdict.WRONG
    assert says in found.says


def test_a_server_that_hangs_up(site: Path, authority: Certified, tmp_path: Path) -> None:
    with serving(Behaviour(hangs_up=True), server(authority), tmp_path) as port:
        found = check(site, port)
    assert list(found) == ["port", "TLS"]
    assert "the server ended the connection" in found["TLS"].says


def test_a_superlink_without_its_proxy_is_a_note(
    site: Path, authority: Certified, public: bytes, tmp_path: Path
) -> None:
    with serving(Behaviour(known={public}, pages={"/openapi.json"}), server(authority), tmp_path) as port:
        found = check(site, port)["exposure"]
    assert found.verdict is Verdict.NOTE
    assert "others could submit code" in found.says


def test_a_proxy_in_the_environment_is_a_note(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.org:3128")
    found = check(site, free_ports(1)[0])
    assert found["HTTPS proxy"].verdict is Verdict.NOTE
