"""What a sealed message is: a header in the clear, and boxes under keys that belong to this message alone.

The pattern is that of HPKE's authenticated mode (RFC 9180) and of Noise's K: X25519 with a fresh key e for each
message, and the static keys of both ends known to each other beforehand:

    secret = HKDF-SHA256(DH(e, recipient) || DH(sender, recipient); "fedcomp seal v1", header, both static public keys)

so that only the recipient can open it, and only the sender, or the recipient itself, can have made it. Each box has a
key of its own that HKDF draws from the secret by the box's name. The header is part of the secret, and of each box's
associated data.

Header, little-endian: magic "FCSL"; version u8; direction u8; round u64; request id, 16 bytes; lengths of the run's
and of the site's name, u16 each; the public key e, 32 bytes; the two names in UTF-8. No two headers have equal bytes.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Self

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand

from fedcomp.sealing.box import KEY_BYTES, close_box, open_box
from fedcomp.sealing.errors import (
    Altered,
    NotSealed,
    Replayed,
    SealingKeyError,
    UnsupportedSeal,
    WrongDirection,
    WrongRound,
    WrongRun,
    WrongSite,
)

VERSION = 1
REQUEST_ID_BYTES = 16

_MAGIC = b"FCSL"
_LABEL = b"fedcomp seal v1"
_FIXED = struct.Struct("<4sBBQ16sHH32s")
_LONGEST_NAME = 2**16 - 1


class Direction(enum.IntEnum):
    """What a message is."""

    DESCRIPTION = 1
    REQUEST = 2
    REPLY = 3


@dataclass(frozen=True)
class Header:
    """Which message it is; everybody on its way can read this.

    Attributes
    ----------
    direction
        A site's description of itself, a request to it, or its reply.
    run, round_index
        Of which run and round; a description has round 0.
    site
        The name of the site that sends or gets it.
    request_id
        16 bytes: of a request, its own; of an answer, those of what it answers.
    """

    direction: Direction
    run: str
    round_index: int
    site: str
    request_id: bytes

    def check(self, expected: Header) -> None:
        """Compare with what is awaited; to be called before anything is opened.

        Raises
        ------
        WrongDirection, WrongRun, WrongSite, WrongRound, Replayed
            The first that differs, with both values.
        """
        if self.direction != expected.direction:
            raise WrongDirection(f"a sealed {self.direction.name.lower()} came for a {expected.direction.name.lower()}")
        if self.run != expected.run:
            raise WrongRun(f"sealed for run {self.run!r}, this is run {expected.run!r}")
        if self.site != expected.site:
            raise WrongSite(f"sealed for or by site {self.site!r}, awaited was {expected.site!r}")
        if self.round_index != expected.round_index:
            raise WrongRound(f"sealed for round {self.round_index}, this is round {expected.round_index}")
        if self.request_id != expected.request_id:
            raise Replayed(
                f"it answers request {self.request_id.hex()}, asked was {expected.request_id.hex()}; an older answer "
                "was sent again"
            )


class Seal:
    """The keys of one message; either end makes them with ``to_send`` or ``received``.

    Attributes
    ----------
    head
        The header's bytes, which the recipient needs.
    """

    def __init__(self, head: bytes, secret: bytes) -> None:
        self.head = head
        self._secret = secret

    @classmethod
    def to_send(
        cls,
        header: Header,
        *,
        sender: X25519PrivateKey,
        recipient: X25519PublicKey,
        ephemeral: X25519PrivateKey | None = None,
    ) -> Self:
        """Return the keys of a new message; ``ephemeral`` is for tests alone, which want the same bytes each time.

        Raises
        ------
        SealingKeyError
            When ``recipient`` is no usable public key, or a name is longer than 65,535 bytes.
        """
        ephemeral = ephemeral or X25519PrivateKey.generate()
        head = _pack(header, ephemeral.public_key())
        try:
            shared = ephemeral.exchange(recipient) + sender.exchange(recipient)
        except ValueError as error:
            raise SealingKeyError(f"the pinned key of the recipient ({header.site!r}) is unusable: {error}") from error
        return cls(head, _secret(shared, head, sender.public_key(), recipient))

    @classmethod
    def received(cls, head: bytes, *, recipient: X25519PrivateKey, sender: X25519PublicKey) -> Self:
        """Return the keys of a message that came, given its header's bytes; boxes that do not fit them are refused.

        Raises
        ------
        Altered
            When its public key is one that nobody makes.
        """
        ephemeral = X25519PublicKey.from_public_bytes(_FIXED.unpack_from(head)[-1])
        try:
            shared = recipient.exchange(ephemeral) + recipient.exchange(sender)
        except ValueError as error:
            raise Altered("the message's public key is of low order, which no sender makes") from error
        return cls(head, _secret(shared, head, sender, recipient.public_key()))

    def close(self, name: str, content: bytes) -> bytes:
        """Return the box of this name, 16 bytes longer than its content; each name once a message."""
        return close_box(content, key=self._key(name), context=self._context(name))

    def open(self, name: str, box: bytes) -> bytes:
        """Return the content of the box of this name; raises Altered."""
        return open_box(box, key=self._key(name), context=self._context(name), what=f"sealed {name!r}")

    def _key(self, name: str) -> bytes:
        return HKDFExpand(SHA256(), KEY_BYTES, b"fedcomp box v1 " + name.encode()).derive(self._secret)

    def _context(self, name: str) -> bytes:
        return self.head + name.encode()


def split(message: bytes) -> tuple[Header, bytes, bytes]:
    """Return the header of a message, the header's bytes, and what follows them.

    Raises
    ------
    NotSealed, UnsupportedSeal, Altered
        When it is not a sealed message, one of another release, or shorter than its header says.
    """
    if message[: len(_MAGIC)] != _MAGIC:
        raise NotSealed("the message does not begin like a sealed one")
    if len(message) > len(_MAGIC) and message[len(_MAGIC)] != VERSION:
        raise UnsupportedSeal(
            f"the message is sealed in format {message[len(_MAGIC)]}, this release reads {VERSION}; install the same "
            "release on both ends"
        )
    try:
        _, _, direction, round_index, request_id, run_bytes, site_bytes, _ = _FIXED.unpack_from(message)
        names = message[_FIXED.size : _FIXED.size + run_bytes + site_bytes]
        run, site = names[:run_bytes].decode(), names[run_bytes:].decode()
        header = Header(Direction(direction), run, round_index, site, request_id)
    except (struct.error, ValueError) as error:
        raise Altered(f"the header of a sealed message of {len(message)} bytes cannot be read: {error}") from error
    end = _FIXED.size + len(names)
    return header, message[:end], message[end:]


def _pack(header: Header, ephemeral: X25519PublicKey) -> bytes:
    run, site = header.run.encode(), header.site.encode()
    if max(len(run), len(site)) > _LONGEST_NAME:
        raise SealingKeyError(f"a run's or site's name has {max(len(run), len(site))} bytes; allowed: {_LONGEST_NAME}")
    if len(header.request_id) != REQUEST_ID_BYTES:
        raise SealingKeyError(f"the request id has {len(header.request_id)} bytes, it must have {REQUEST_ID_BYTES}")
    fixed = _FIXED.pack(
        _MAGIC,
        VERSION,
        header.direction,
        header.round_index,
        header.request_id,
        len(run),
        len(site),
        ephemeral.public_bytes_raw(),
    )
    return fixed + run + site


def _secret(shared: bytes, head: bytes, sender: X25519PublicKey, recipient: X25519PublicKey) -> bytes:
    info = _LABEL + sender.public_bytes_raw() + recipient.public_bytes_raw() + head
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(shared)
