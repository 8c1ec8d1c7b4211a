"""The key by which the coordinator's SuperLink knows a site's SuperNode: EC P-384, in OpenSSH's formats."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from fedcomp.site.errors import BadKey


@dataclass(frozen=True)
class SuperNodeKey:
    """A site's key.

    Attributes
    ----------
    private
        OpenSSH private key, not encrypted, as ``flower-supernode --auth-supernode-private-key`` reads it.
    public
        One line in OpenSSH's format, as ``flwr supernode register`` reads it; ends with the site's name.
    """

    private: bytes
    public: bytes


def create_supernode_key(site: str) -> SuperNodeKey:
    """Return a new key for a site; only its public half, with the site's name in it, may leave the site's archive."""
    key = ec.generate_private_key(ec.SECP384R1())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return SuperNodeKey(private, public + f" {site}\n".encode())


def read_private_key(data: bytes) -> ec.EllipticCurvePrivateKey:
    """Read a site's private key; raises BadKey when it is something else."""
    try:
        key = serialization.load_ssh_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadKey(f"the SuperNode key cannot be read: {error}; take the file out of the archive again") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise BadKey("the SuperNode key is no EC key; take the file out of the archive again")
    return key


def key_fingerprint(public: bytes) -> str:
    """Return ``SHA256:…`` of a public key in OpenSSH's format, as ``ssh-keygen -lf`` shows it; raises BadKey."""
    try:
        key = serialization.load_ssh_public_key(public)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise BadKey(f"the public key cannot be read: {error}") from error
    digest = serialization.ssh_key_fingerprint(key, hashes.SHA256())
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def public_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the public half as PEM, the form in which Flower's Fleet API carries it."""
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
