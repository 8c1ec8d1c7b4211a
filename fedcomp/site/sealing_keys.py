"""New keys that seal messages end to end between the server app and a site."""

from __future__ import annotations

from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedcomp.sealing.keys import private_pem, public_text


@dataclass(frozen=True)
class SealingKey:
    """A key pair as its files have it.

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
    return SealingKey(private_pem(key), public_text(key.public_key()))
