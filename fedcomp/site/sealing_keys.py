"""The keys that seal messages end to end between the server app and a site: X25519."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedcomp.site.errors import BadKey

_PUBLIC_BYTES = 32


@dataclass(frozen=True)
class SealingKey:
    """A key pair.

    Attributes
    ----------
    private
        PEM (PKCS #8, not encrypted).
    public
        Base64 of the 32 bytes of the public key.
    """

    private: bytes
    public: str


def create_sealing_key() -> SealingKey:
    """Return a new key pair."""
    key = X25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return SealingKey(private, _text(key))


def public_of(private: bytes) -> str:
    """Return the public half, base64, of a private key in PEM; raises BadKey when it is no X25519 key."""
    try:
        key = serialization.load_pem_private_key(private, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadKey(f"the sealing key cannot be read: {error}; take the file out of the archive again") from error
    if not isinstance(key, X25519PrivateKey):
        raise BadKey("the sealing key is no X25519 key; take the file out of the archive again")
    return _text(key)


def check_public(text: str) -> str:
    """Return the public key, base64, without the space around it; raises BadKey unless it stands for 32 bytes."""
    try:
        data = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadKey(f"the sealing key {text.strip()[:60]!r} is not base64") from error
    if len(data) != _PUBLIC_BYTES:
        raise BadKey(f"the sealing key has {len(data)} bytes; allowed: {_PUBLIC_BYTES}")
    return text.strip()


def _text(key: X25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()
