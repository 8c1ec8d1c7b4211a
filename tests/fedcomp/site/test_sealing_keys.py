from __future__ import annotations

import base64

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedcomp.site.sealing_keys import create_sealing_key


def test_both_halves_belong_together() -> None:
    made, other = create_sealing_key(), create_sealing_key()
    assert made.public != other.public
    keys = [serialization.load_pem_private_key(key.private, None) for key in (made, other)]
    assert made.private.startswith(b"-----BEGIN PRIVATE KEY-----")
    shared = []
    for key, public in zip(keys, (other.public, made.public), strict=True):
        assert isinstance(key, X25519PrivateKey)
        shared.append(key.exchange(X25519PublicKey.from_public_bytes(base64.b64decode(public))))
    assert shared[0] == shared[1]
