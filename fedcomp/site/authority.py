"""The federation's own certificate authority and the coordinator's server certificate."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fedcomp.site.errors import BadCertificate, BadHost

AUTHORITY_DAYS, SERVER_DAYS = 3650, 365

_LABEL = r"(?!-)[a-zA-Z0-9-]{1,63}(?<!-)"
_DNS_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
# A site whose clock is a little behind must not find a fresh certificate "not yet valid".
_BACKDATED = timedelta(hours=1)

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Certified:
    """A private key (EC P-384) and the certificate of its public half."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate

    @classmethod
    def from_pem(cls, key: bytes, certificate: bytes) -> Self:
        """Read both; raises BadCertificate when one cannot be read or they do not belong together."""
        found = read_certificate(certificate)
        try:
            private = serialization.load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise BadCertificate(f"the private key cannot be read: {error}") from error
        if not isinstance(private, ec.EllipticCurvePrivateKey) or private.public_key() != found.public_key():
            raise BadCertificate(f"the private key is not that of {name_of(found)!r}; restore both from one backup")
        return cls(private, found)

    def key_pem(self) -> bytes:
        """Return the key as PEM (PKCS #8, not encrypted)."""
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def certificate_pem(self) -> bytes:
        """Return the certificate as PEM."""
        return self.certificate.public_bytes(serialization.Encoding.PEM)


def create_authority(name: str, *, now: datetime, days: float = AUTHORITY_DAYS) -> Certified:
    """Return a new authority that signs server certificates and nothing below itself."""
    return _self_signed(ec.generate_private_key(ec.SECP384R1()), name, now=now, days=days)


def renew_authority(authority: Certified, *, now: datetime, days: float = AUTHORITY_DAYS) -> Certified:
    """Return the same authority, key and name, with a later end: what it signed before stays valid."""
    return _self_signed(authority.key, name_of(authority.certificate), now=now, days=days)


def issue_server(authority: Certified, hosts: Sequence[str], *, now: datetime, days: float = SERVER_DAYS) -> Certified:
    """Return a new key and certificate for a server that is reached by ``hosts``, DNS names and IP addresses.

    Its end is never after the authority's own.

    Raises
    ------
    BadHost
        When there is none, or one is neither.
    """
    if not hosts:
        raise BadHost("no host: give at least one name or address by which the server is reached")
    key = ec.generate_private_key(ec.SECP384R1())
    names: list[x509.GeneralName] = []
    for host in hosts:
        address = ip_address(host)
        names.append(x509.DNSName(check_host(host)) if address is None else x509.IPAddress(address))
    end = min(now + timedelta(days=days), authority.certificate.not_valid_after_utc)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    builder = (
        x509.CertificateBuilder(subject_name=subject, issuer_name=authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False)
    )
    return Certified(key, builder.sign(authority.key, hashes.SHA384()))


def read_certificate(data: bytes) -> x509.Certificate:
    """Read a certificate, PEM or DER; raises BadCertificate."""
    try:
        return x509.load_pem_x509_certificate(data) if b"-----BEGIN" in data else x509.load_der_x509_certificate(data)
    except ValueError as error:
        raise BadCertificate(f"the certificate cannot be read: {error}") from error


def hosts_of(certificate: x509.Certificate) -> list[str]:
    """Return the DNS names and IP addresses that a certificate is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    addresses = [str(address) for address in names.get_values_for_type(x509.IPAddress)]
    return names.get_values_for_type(x509.DNSName) + addresses


def name_of(certificate: x509.Certificate) -> str:
    """Return the common name of whom a certificate is about; empty when it has none."""
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(found[0].value) if found else ""


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of a certificate as ``SHA256:AB:CD:…``, as ``openssl x509 -fingerprint`` shows it."""
    return "SHA256:" + certificate.fingerprint(hashes.SHA256()).hex(":").upper()


def check_host(host: str) -> str:
    """Return ``host`` when it is a DNS name or an IP address; raises BadHost."""
    if ip_address(host) is None and not (_DNS_NAME.fullmatch(host) and len(host) <= 253):
        raise BadHost(f"host {host!r} is neither a DNS name nor an IP address; leave out https:// and the port")
    return host


def ip_address(text: str) -> Address | None:
    """Return the IP address that a text is; None when it is none."""
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _self_signed(key: ec.EllipticCurvePrivateKey, name: str, *, now: datetime, days: float) -> Certified:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = (
        x509.CertificateBuilder(subject_name=subject, issuer_name=subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return Certified(key, builder.sign(key, hashes.SHA384()))


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
