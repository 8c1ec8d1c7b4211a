from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fedcomp.site.authority import Certified, hosts_of, read_certificate
from fedcomp.site.errors import BadCertificate, BadFederation, BadHost
from fedcomp.site.federation import FederationFolder
from fedcomp.site.renewal import renew_certificate_authority, renew_server


def server(folder: FederationFolder) -> Certified:
    return Certified.from_pem(folder.server_key.read_bytes(), folder.server_certificate.read_bytes())


def test_a_renewed_server_has_a_new_key_a_later_end_and_more_names(folder: FederationFolder, now: datetime) -> None:
    before, authority = server(folder), folder.ca_certificate.read_bytes()
    renew_server(folder.path, now=now + timedelta(days=300), days=365)
    after = server(folder)
    assert after.key.public_key() != before.key.public_key()
    assert after.certificate.not_valid_after_utc - before.certificate.not_valid_after_utc == timedelta(days=300)
    assert hosts_of(after.certificate) == hosts_of(before.certificate)
    after.certificate.verify_directly_issued_by(read_certificate(authority))
    assert folder.ca_certificate.read_bytes() == authority
    renew_server(folder.path, now=now, hosts=["new.example.org"])
    assert "new.example.org" in hosts_of(server(folder).certificate)
    assert "new.example.org" in folder.load().hosts
    assert "new.example.org" in (folder.deploy / "fedcomp-nginx.conf").read_text()
    with pytest.raises(BadHost):
        renew_server(folder.path, now=now, hosts=["https://new"])


def test_a_renewed_authority_vouches_for_the_server_there_is(folder: FederationFolder, now: datetime) -> None:
    before = read_certificate(folder.ca_certificate.read_bytes())
    renewed = renew_certificate_authority(folder.path, now=now + timedelta(days=100))
    assert read_certificate(folder.ca_certificate.read_bytes()) == renewed.certificate
    assert renewed.certificate.not_valid_after_utc - before.not_valid_after_utc == timedelta(days=100)
    server(folder).certificate.verify_directly_issued_by(renewed.certificate)


def test_without_the_authoritys_key_nothing_is_renewed(folder: FederationFolder, now: datetime) -> None:
    before = folder.server_certificate.read_bytes()
    key = folder.ca_key.read_bytes()
    folder.ca_key.unlink()
    with pytest.raises(BadFederation, match=r"ca.key cannot be read: No such file.*; put the authority back"):
        renew_server(folder.path, now=now)
    folder.ca_key.write_bytes(key[:60])
    with pytest.raises(BadCertificate, match="private key cannot be read"):
        renew_certificate_authority(folder.path, now=now)
    assert folder.server_certificate.read_bytes() == before
