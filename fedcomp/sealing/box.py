"""One content under one key that is used once."""

from __future__ import annotations

import secrets

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from fedcomp.sealing.errors import Altered, TooLongToSeal

KEY_BYTES = 32
TAG_BYTES = 16
"""How much longer a box is than its content."""

_NONCE = bytes(12)  # zero, since no key closes two boxes


def new_key() -> bytes:
    """Return a random key."""
    return secrets.token_bytes(KEY_BYTES)


def close_box(content: bytes, *, key: bytes, context: bytes) -> bytes:
    """Encrypt ``content`` with ChaCha20-Poly1305 (RFC 8439), and authenticate it with ``context``.

    Cost: one copy of ``content``. A key must not close a second box.

    Raises
    ------
    TooLongToSeal
        When it is 2**31 bytes or longer.
    """
    try:
        return ChaCha20Poly1305(key).encrypt(_NONCE, content, context)
    except OverflowError as error:
        raise TooLongToSeal(f"{len(content)} bytes cannot be sealed at once; allowed: below 2**31") from error


def open_box(box: bytes, *, key: bytes, context: bytes, what: str) -> bytes:
    """Return the content of a box; ``what`` names it in errors.

    Raises
    ------
    Altered
        Unless the very same bytes were closed with the same key and context.
    """
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, box, context)
    except (InvalidTag, ValueError, OverflowError) as error:
        raise Altered(
            f"{what} ({len(box)} bytes) was changed on its way, or was sealed with another key; nothing of it is used"
        ) from error
