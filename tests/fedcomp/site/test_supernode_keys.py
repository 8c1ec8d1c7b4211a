from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from flwr.cli.supernode.register import try_load_public_key

from fedcomp.site.errors import BadKey
from fedcomp.site.sealing_keys import create_sealing_key
from fedcomp.site.supernode_keys import create_supernode_key, key_fingerprint, public_pem, read_private_key


def test_flower_reads_the_public_key_and_it_belongs_to_the_private_one(tmp_path: Path) -> None:
    made = create_supernode_key("bank")
    (tmp_path / "bank.pub").write_bytes(made.public)
    private = read_private_key(made.private)
    assert try_load_public_key(tmp_path / "bank.pub") == public_pem(private)
    assert isinstance(private.curve, ec.SECP384R1)
    assert made.public.startswith(b"ecdsa-sha2-nistp384 ")
    assert made.public.endswith(b" bank\n")
    assert create_supernode_key("bank").public != made.public


def test_the_fingerprint_is_the_one_that_openssh_shows(tmp_path: Path) -> None:
    made = create_supernode_key("bank")
    (tmp_path / "bank.pub").write_bytes(made.public)
    try:
        shown = subprocess.run(
            ["ssh-keygen", "-lf", str(tmp_path / "bank.pub")], capture_output=True, text=True, check=True
        ).stdout
    except FileNotFoundError:
        pytest.skip("ssh-keygen is not on the PATH (Debian: apt-get install openssh-client)")
    assert shown.split()[1] == key_fingerprint(made.public)


def test_other_keys_are_refused() -> None:
    other = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    with pytest.raises(BadKey, match="is no EC key"):
        read_private_key(other)
    for damaged in (b"", b"nothing", create_sealing_key().private, create_supernode_key("a").private[:-40]):
        with pytest.raises(BadKey, match="cannot be read"):
            read_private_key(damaged)
    with pytest.raises(BadKey, match="public key cannot be read"):
        key_fingerprint(b"ecdsa-sha2-nistp384 nothing")
