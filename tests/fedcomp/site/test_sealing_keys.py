from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from fedcomp.site.errors import BadKey
from fedcomp.site.sealing_keys import check_public, create_sealing_key, public_of
from fedcomp.site.supernode_keys import create_supernode_key


def test_both_halves_belong_together() -> None:
    made, other = create_sealing_key(), create_sealing_key()
    assert public_of(made.private) == made.public != other.public
    keys = [serialization.load_pem_private_key(key.private, None) for key in (made, other)]
    assert made.private.startswith(b"-----BEGIN PRIVATE KEY-----")
    shared = []
    for key, public in zip(keys, (other.public, made.public), strict=True):
        assert isinstance(key, X25519PrivateKey)
        shared.append(key.exchange(X25519PublicKey.from_public_bytes(base64.b64decode(public))))
    assert shared[0] == shared[1]


def test_what_is_no_key_is_refused() -> None:
    assert check_public(f" {create_sealing_key().public}\n")
    with pytest.raises(BadKey, match="has 31 bytes; allowed: 32"):
        check_public(base64.b64encode(bytes(31)).decode())
    with pytest.raises(BadKey, match="is not base64"):
        check_public("no key at all")
    with pytest.raises(BadKey, match="cannot be read"):
        public_of(b"nothing")
    with pytest.raises(BadKey, match="cannot be read"):
        public_of(create_supernode_key("a").private)
