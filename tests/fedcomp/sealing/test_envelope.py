from __future__ import annotations

import hashlib
import hmac
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.sealing.envelope import Direction, Header, Seal, split
from fedcomp.sealing.errors import (
    Altered,
    NotSealed,
    Replayed,
    SealingError,
    SealingKeyError,
    UnsupportedSeal,
    WrongDirection,
    WrongRound,
    WrongRun,
    WrongSite,
)


def key(number: int) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(hashlib.sha256(bytes([number])).digest())


SERVER, SITE, OTHER = key(1), key(2), key(3)
HEADER = Header(Direction.REPLY, "20261201-a", 7, "bank", bytes(range(16)))
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HEADERS = st.builds(
    Header, st.sampled_from(Direction), NAMES, st.integers(0, 2**64 - 1), NAMES, st.binary(min_size=16, max_size=16)
)


def sealed(header: Header = HEADER, content: bytes = b"an update", sender: X25519PrivateKey = SITE) -> bytes:
    seal = Seal.to_send(header, sender=sender, recipient=SERVER.public_key())
    return seal.head + seal.close("rest", content)


def opened(message: bytes, sender: X25519PrivateKey = SITE, recipient: X25519PrivateKey = SERVER) -> bytes:
    _, head, box = split(message)
    return Seal.received(head, recipient=recipient, sender=sender.public_key()).open("rest", box)


def test_golden_bytes() -> None:
    seal = Seal.to_send(HEADER, sender=SITE, recipient=SERVER.public_key(), ephemeral=key(4))
    message = seal.head + seal.close("rest", b"an update")
    assert message.hex() == (
        "4643534c01030700000000000000000102030405060708090a0b0c0d0e0f0a000400c6c92ef0e4737a65719678ec5d602c9c4e21f5d66cb39e"
        "9cef50dd39805cbb5532303236313230312d6162616e6bcda16936db4c8efd5fbab339e1d212fb8c9521a1c02eb379a4"
    )
    assert opened(message) == b"an update"


def test_the_bytes_are_those_of_the_description_followed_by_hand() -> None:
    public = [item.public_key().public_bytes_raw() for item in (SITE, SERVER, key(4))]
    head = b"FCSL" + bytes([1, 3]) + (7).to_bytes(8, "little") + bytes(range(16))
    head += (10).to_bytes(2, "little") + (4).to_bytes(2, "little") + public[2] + b"20261201-a" + b"bank"
    shared = key(4).exchange(SERVER.public_key()) + SITE.exchange(SERVER.public_key())
    # HKDF (RFC 5869) of one block, without salt.
    extracted = hmac.digest(bytes(32), shared, "sha256")
    secret = hmac.digest(extracted, b"fedcomp seal v1" + public[0] + public[1] + head + b"\1", "sha256")
    box_key = hmac.digest(secret, b"fedcomp box v1 rest\1", "sha256")
    box = ChaCha20Poly1305(box_key).encrypt(bytes(12), b"an update", head + b"rest")
    seal = Seal.to_send(HEADER, sender=SITE, recipient=SERVER.public_key(), ephemeral=key(4))
    assert (seal.head, seal.close("rest", b"an update")) == (head, box)


@given(HEADERS, st.binary(max_size=200))
def test_the_recipient_reads_header_and_content(header: Header, content: bytes) -> None:
    message = sealed(header, content)
    assert split(message)[0] == header
    assert opened(message) == content


@given(HEADERS, HEADERS)
def test_no_two_headers_have_the_same_bytes(one: Header, other: Header) -> None:
    heads = [
        Seal.to_send(item, sender=SITE, recipient=SERVER.public_key(), ephemeral=key(4)).head for item in (one, other)
    ]
    assert (heads[0] == heads[1]) == (one == other)


def test_no_two_messages_and_no_two_boxes_of_one_have_the_same_key() -> None:
    seals = [Seal.to_send(HEADER, sender=SITE, recipient=SERVER.public_key()) for _ in range(2)]
    boxes = [seal.close(name, bytes(32)) for seal in seals for name in ("rest", "arrays/payload")]
    assert len({box[:8] for box in boxes}) == 4
    received = Seal.received(seals[0].head, recipient=SERVER, sender=SITE.public_key())
    assert received.open("rest", boxes[0]) == bytes(32)
    for name, box in (("arrays/payload", boxes[0]), ("rest", boxes[1]), ("rest", boxes[2])):
        with pytest.raises(Altered):
            received.open(name, box)


def test_every_changed_bit_is_refused() -> None:
    message = sealed()
    for place in range(len(message)):
        for bit in range(8):
            wrong = bytearray(message)
            wrong[place] ^= 1 << bit
            with pytest.raises(SealingError):
                opened(bytes(wrong))


def test_every_truncation_and_whatever_is_appended_is_refused() -> None:
    message = sealed()
    for end in range(len(message)):
        with pytest.raises(SealingError):
            opened(message[:end])
    with pytest.raises(Altered):
        opened(message + b"\0")


@given(st.binary(max_size=200))
def test_noise_is_refused(noise: bytes) -> None:
    with pytest.raises(NotSealed):
        split(b"x" + noise)
    with pytest.raises(SealingError):
        opened(b"FCSL\1" + noise)


def test_only_the_pinned_keys_open_a_message() -> None:
    message = sealed()
    with pytest.raises(Altered):
        opened(message, sender=OTHER)
    with pytest.raises(Altered):
        opened(message, recipient=OTHER)
    # Somebody who knows all public keys and no private one cannot write in the site's name.
    with pytest.raises(Altered):
        opened(sealed(sender=OTHER))
    # Neither does a message of the server come back as one of the site.
    with pytest.raises(Altered):
        opened(sealed(), sender=SERVER, recipient=SITE)


def test_another_release_is_named() -> None:
    message = bytearray(sealed())
    message[4] = 2
    with pytest.raises(UnsupportedSeal, match="format 2, this release reads 1; install the same release on both ends"):
        split(bytes(message))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"direction": Direction.REQUEST}, WrongDirection, "a sealed request came for a reply"),
        ({"run": "b"}, WrongRun, "sealed for run 'b', this is run '20261201-a'"),
        ({"site": "factory"}, WrongSite, "site 'factory', awaited was 'bank'"),
        ({"round_index": 6}, WrongRound, "round 6, this is round 7"),
        ({"request_id": bytes(16)}, Replayed, "it answers request 0{32}, asked was 000102"),
    ],
)
def test_a_message_in_the_wrong_place_is_refused_by_name(
    change: dict[str, object], error: type[SealingError], says: str
) -> None:
    HEADER.check(HEADER)
    wrong = replace(HEADER, **change)  # type: ignore[arg-type]
    with pytest.raises(error, match=says):
        wrong.check(HEADER)
    # Who changes the header so that it passes finds that the box does not open.
    _, _, box = split(sealed(wrong))
    forged = Seal.to_send(HEADER, sender=OTHER, recipient=SERVER.public_key()).head + box
    with pytest.raises(Altered):
        opened(forged)


def test_a_key_of_low_order_is_refused_on_both_ends() -> None:
    low = X25519PublicKey.from_public_bytes(bytes(32))
    with pytest.raises(SealingKeyError, match="the pinned key of the recipient"):
        Seal.to_send(HEADER, sender=SITE, recipient=low)
    message = bytearray(sealed())
    message[34:66] = bytes(32)
    with pytest.raises(Altered, match="low order"):
        opened(bytes(message))


def test_names_and_numbers_that_do_not_fit_are_refused() -> None:
    for wrong in (replace(HEADER, site="x" * 65536), replace(HEADER, request_id=b"short")):
        with pytest.raises(SealingKeyError, match=r"65536 bytes|has 5 bytes"):
            sealed(wrong)
