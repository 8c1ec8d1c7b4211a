"""Key files: X25519 private keys as PKCS8 PEM, public keys as one line of base64, the roster of sites as TOML."""

from __future__ import annotations

import base64
import os
import secrets
import tomllib
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from fedcomp.sealing.errors import SealingKeyError

SERVER_KEY, SITES = "server.key", "sites.toml"
"""In the server's folder."""
SITE_KEY, SERVER_PUBLIC = "sealing.key", "server.pub"
"""In a site's folder."""
SITE_PUBLIC = "sealing.pub"
"""What a site gives to the server's roster."""

_PUBLIC_BYTES = 32
_OTHERS = 0o007


def make_key(path: Path) -> X25519PrivateKey:
    """Write a new private key, readable by its owner only, and return it; one that is there is kept and returned.

    Of two processes that begin at once, both return the first one's.

    Raises
    ------
    SealingKeyError
        When what is there is no key.
    OSError
        When the file cannot be written.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        draft.touch(mode=0o600)
        draft.write_bytes(private_pem(X25519PrivateKey.generate()))
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return load_key(path)


def load_key(path: Path) -> X25519PrivateKey:
    """Read a private key.

    Raises
    ------
    SealingKeyError
        When it is missing, readable by everybody, or no X25519 key in PEM without a password.
    """
    text = _read(path)
    if path.stat().st_mode & _OTHERS:
        raise SealingKeyError(f"{path} is open to every user of this machine; run: chmod 600 {path}")
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise SealingKeyError(f"{path} is no private key in PEM without a password: {error}") from error
    if not isinstance(key, X25519PrivateKey):
        raise SealingKeyError(f"{path} holds a {type(key).__name__}; sealing needs an X25519 key")
    return key


def private_pem(key: X25519PrivateKey) -> bytes:
    """Return a private key as PEM (PKCS #8, not encrypted)."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def public_text(key: X25519PublicKey) -> str:
    """Return a public key as base64."""
    return base64.b64encode(key.public_bytes_raw()).decode()


def save_public(path: Path, key: X25519PublicKey) -> None:
    """Write a public key as one line; a reader sees a whole file at any time."""
    text = public_text(key) + "\n"
    if path.exists() and path.read_text() == text:
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    draft.write_text(text)
    draft.replace(path)


def load_public(path: Path) -> X25519PublicKey:
    """Read a file with one public key; raises SealingKeyError."""
    return _public(_read(path).decode(errors="replace").strip(), str(path))


def load_sites(path: Path) -> dict[str, X25519PublicKey]:
    """Read the roster: a table ``[sites]`` of ``NAME = "base64"`` lines.

    Raises
    ------
    SealingKeyError
        When it is missing or no such table, a key is unusable, or two sites have the same one.
    """
    try:
        sites = tomllib.loads(_read(path).decode()).get("sites")
    except (ValueError, tomllib.TOMLDecodeError) as error:
        raise SealingKeyError(f"{path} is not TOML: {error}") from error
    if not isinstance(sites, dict):
        raise SealingKeyError(f'{path} has no table [sites]; it holds lines such as  bank = "base64 of its public key"')
    keys = {name: _public(text, f"{path}, site {name!r}") for name, text in sites.items()}
    owners: dict[bytes, str] = {}
    for name, key in keys.items():
        twin = owners.setdefault(key.public_bytes_raw(), name)
        if twin != name:
            raise SealingKeyError(f"{path}: sites {twin!r} and {name!r} have the same key; give each its own")
    return keys


def _public(text: object, where: str) -> X25519PublicKey:
    try:
        raw = base64.b64decode(str(text), validate=True)
    except ValueError as error:  # binascii.Error, or a letter beyond ASCII
        raise SealingKeyError(f"{where}: {text!r} is not base64: {error}") from error
    if len(raw) != _PUBLIC_BYTES:
        raise SealingKeyError(f"{where}: the key has {len(raw)} bytes, a public X25519 key has {_PUBLIC_BYTES}")
    return X25519PublicKey.from_public_bytes(raw)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SealingKeyError(
            f"the key file {path} cannot be read: {error.strerror}; put it there, or name another folder"
        ) from error
