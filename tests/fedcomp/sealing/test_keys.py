from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from fedcomp.sealing.errors import SealingKeyError
from fedcomp.sealing.keys import load_key, load_public, load_sites, make_key, public_text, save_public


def raw(path: Path) -> bytes:
    return load_key(path).private_bytes_raw()


def test_a_key_is_made_once_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "keys" / "server.key"
    first = make_key(path).private_bytes_raw()
    assert make_key(path).private_bytes_raw() == raw(path) == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.read_text().startswith("-----BEGIN PRIVATE KEY-----")
    assert [item.name for item in path.parent.iterdir()] == ["server.key"]


def test_two_at_once_use_the_same_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: make_key(tmp_path / "server.key").private_bytes_raw(), range(16)))
    assert len(set(keys)) == 1


def test_public_keys_come_back(tmp_path: Path) -> None:
    key = make_key(tmp_path / "server.key").public_key()
    save_public(tmp_path / "server.pub", key)
    save_public(tmp_path / "server.pub", key)
    assert load_public(tmp_path / "server.pub").public_bytes_raw() == key.public_bytes_raw()
    other = make_key(tmp_path / "other.key").public_key()
    save_public(tmp_path / "server.pub", other)
    assert load_public(tmp_path / "server.pub").public_bytes_raw() == other.public_bytes_raw()
    assert sorted(item.name for item in tmp_path.iterdir()) == ["other.key", "server.key", "server.pub"]


def test_keys_that_cannot_be_used_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.key"
    with pytest.raises(SealingKeyError, match=r"server\.key cannot be read: No such file"):
        load_key(path)
    plain = NoEncryption()
    wrong = {
        b"nonsense": "no private key in PEM",
        Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, plain): "needs an X25519 key",
        X25519PrivateKey.generate().private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
        ): "without a password",
    }
    path.touch(mode=0o600)
    for content, says in wrong.items():
        path.write_bytes(content)
        with pytest.raises(SealingKeyError, match=says):
            load_key(path)


def test_a_key_that_everybody_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "server.key"
    make_key(path)
    path.chmod(0o640)  # a service's group may read it
    load_key(path)
    path.chmod(0o644)
    with pytest.raises(SealingKeyError, match=r"open to every user of this machine; run: chmod 600 .*server\.key"):
        load_key(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has 0 bytes"),
        ("AAAA", "has 3 bytes, a public X25519 key has 32"),
        ("not base64!", "is not base64"),
        ("ключ", "is not base64"),
    ],
)
def test_public_keys_that_cannot_be_used_are_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "server.pub").write_text(text)
    (tmp_path / "sites.toml").write_text(f'[sites]\nbank = "{text}"\n')
    with pytest.raises(SealingKeyError, match=says):
        load_public(tmp_path / "server.pub")
    with pytest.raises(SealingKeyError, match=f"site 'bank'.*{says}"):
        load_sites(tmp_path / "sites.toml")


def test_the_roster_has_a_key_a_site(tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    texts = [public_text(make_key(tmp_path / f"{i}.key").public_key()) for i in range(2)]
    path.write_text(f'[sites]\nbank = "{texts[0]}"\n"St. Mary\'s" = "{texts[1]}"\n')
    assert {name: public_text(key) for name, key in load_sites(path).items()} == {
        "bank": texts[0],
        "St. Mary's": texts[1],
    }
    path.write_text(f'[sites]\nbank = "{texts[0]}"\nfactory = "{texts[0]}"\n')
    with pytest.raises(SealingKeyError, match="sites 'bank' and 'factory' have the same key; give each its own"):
        load_sites(path)


@pytest.mark.parametrize(("text", "says"), [("[sites", "is not TOML"), ("sites = 3", "no table"), ("", "no table")])
def test_a_roster_that_is_none_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "sites.toml"
    path.write_text(text)
    with pytest.raises(SealingKeyError, match=says):
        load_sites(path)
    path.write_bytes(b"\xff")
    with pytest.raises(SealingKeyError, match="is not TOML"):
        load_sites(path)
