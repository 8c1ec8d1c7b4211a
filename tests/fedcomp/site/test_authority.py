from __future__ import annotations

import ipaddress
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from fedcomp.site.authority import (
    Certified,
    check_host,
    create_authority,
    fingerprint,
    hosts_of,
    issue_server,
    name_of,
    read_certificate,
    renew_authority,
)
from fedcomp.site.errors import BadCertificate, BadHost

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
HOSTS = ("fl.example.org", "192.0.2.7", "2001:db8::7", "localhost")


@pytest.fixture(scope="module")
def authority() -> Certified:
    return create_authority("test federation", now=NOW, days=100)


def is_trusted(shown: Certified, authority: Certified, host: str, at: datetime = NOW) -> bool:
    """Ask another implementation than the one that made the certificates, with the rules of the web."""
    address = ipaddress.ip_address(host) if host[0].isdigit() else None
    subject = x509.DNSName(host) if address is None else x509.IPAddress(address)
    verifier = PolicyBuilder().store(Store([authority.certificate])).time(at).build_server_verifier(subject)
    try:
        verifier.verify(shown.certificate, [])
    except VerificationError:
        return False
    return True


@pytest.mark.parametrize("host", HOSTS)
def test_a_server_is_trusted_by_each_of_its_names(authority: Certified, host: str) -> None:
    server = issue_server(authority, HOSTS, now=NOW)
    assert is_trusted(server, authority, host)
    assert set(hosts_of(server.certificate)) == set(HOSTS)
    assert not is_trusted(server, authority, "other.example.org")
    assert not is_trusted(server, create_authority("test federation", now=NOW), host)


def test_the_curve_is_p384_everywhere(authority: Certified) -> None:
    for made in (authority, issue_server(authority, HOSTS, now=NOW)):
        assert isinstance(made.key.curve, ec.SECP384R1)
        assert made.key.public_key() == made.certificate.public_key()


def test_certificates_end_when_they_were_to_and_never_after_the_authority(authority: Certified) -> None:
    short = issue_server(authority, HOSTS, now=NOW, days=10)
    assert short.certificate.not_valid_after_utc == NOW + timedelta(days=10)
    assert is_trusted(short, authority, HOSTS[0], NOW + timedelta(days=9.9))
    assert not is_trusted(short, authority, HOSTS[0], NOW + timedelta(days=10.1))
    assert is_trusted(short, authority, HOSTS[0], NOW - timedelta(minutes=50))
    long = issue_server(authority, HOSTS, now=NOW, days=1000)
    assert long.certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc


def test_a_renewed_authority_still_vouches_for_what_it_signed(authority: Certified) -> None:
    server = issue_server(authority, HOSTS, now=NOW)
    renewed = renew_authority(authority, now=NOW + timedelta(days=90), days=200)
    assert renewed.certificate.not_valid_after_utc == NOW + timedelta(days=290)
    assert name_of(renewed.certificate) == "test federation"
    assert is_trusted(server, renewed, HOSTS[0], NOW + timedelta(days=95))
    # Those who still have the old certificate trust what the renewed one signs, until the old one ends.
    later = issue_server(renewed, HOSTS, now=NOW + timedelta(days=90), days=50)
    assert is_trusted(later, authority, HOSTS[0], NOW + timedelta(days=95))
    assert not is_trusted(later, authority, HOSTS[0], NOW + timedelta(days=101))


def test_pem_and_back(authority: Certified) -> None:
    again = Certified.from_pem(authority.key_pem(), authority.certificate_pem())
    assert again.certificate == authority.certificate
    other = create_authority("another", now=NOW)
    with pytest.raises(BadCertificate, match="the private key is not that of 'another'"):
        Certified.from_pem(authority.key_pem(), other.certificate_pem())
    with pytest.raises(BadCertificate, match="private key cannot be read"):
        Certified.from_pem(b"nothing", other.certificate_pem())
    for damaged in (b"nothing", b"", authority.certificate_pem()[:-200]):
        with pytest.raises(BadCertificate, match="certificate cannot be read"):
            read_certificate(damaged)


def test_the_fingerprint_is_the_one_that_openssl_shows(authority: Certified, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_bytes(authority.certificate_pem())
    command = ["openssl", "x509", "-in", str(tmp_path / "ca.crt"), "-noout", "-fingerprint", "-sha256"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert fingerprint(authority.certificate).removeprefix("SHA256:") == shown.partition("=")[2].strip()


@pytest.mark.parametrize("host", ["fl.example.org", "localhost", "a-b.c1", "192.0.2.7", "::1"])
def test_hosts(host: str) -> None:
    assert check_host(host) == host


@pytest.mark.parametrize(
    "host", ["", "https://fl.example.org", "fl.example.org:443", "a_b", "-a", "a-.b", "*.example.org", "a..b", "x" * 64]
)
def test_what_is_no_host_is_refused(authority: Certified, host: str) -> None:
    with pytest.raises(BadHost, match="neither a DNS name nor an IP address"):
        issue_server(authority, [host], now=NOW)


def test_a_server_without_a_host_is_refused(authority: Certified) -> None:
    with pytest.raises(BadHost, match="give at least one name"):
        issue_server(authority, [], now=NOW)
