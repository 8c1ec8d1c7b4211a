from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.errors import PayloadError
from fedcomp.sealing import box as module
from fedcomp.sealing.box import KEY_BYTES, TAG_BYTES, close_box, new_key, open_box
from fedcomp.sealing.errors import Altered, TooLongToSeal

KEY = bytes(range(KEY_BYTES))


@given(st.binary(max_size=300), st.binary(max_size=50))
def test_a_box_opens_to_what_was_closed_and_shows_its_length_only(content: bytes, context: bytes) -> None:
    box = close_box(content, key=KEY, context=context)
    assert len(box) == len(content) + TAG_BYTES
    assert content not in box or len(content) < 3
    assert open_box(box, key=KEY, context=context, what="it") == content


@given(st.binary(max_size=100), st.data())
def test_any_changed_byte_is_seen(content: bytes, data: st.DataObject) -> None:
    box = bytearray(close_box(content, key=KEY, context=b"here"))
    box[data.draw(st.integers(0, len(box) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(Altered, match=r"it .* was changed on its way"):
        open_box(bytes(box), key=KEY, context=b"here", what="it")


def test_every_end_another_context_and_another_key_are_seen() -> None:
    box = close_box(b"content", key=KEY, context=b"here")
    for wrong in [*(box[:end] for end in range(len(box))), box + b"\0"]:
        with pytest.raises(Altered):
            open_box(wrong, key=KEY, context=b"here", what="it")
    for key, context in ((KEY, b"there"), (new_key(), b"here"), (b"short", b"here")):
        with pytest.raises(PayloadError):
            open_box(box, key=key, context=context, what="it")


def test_keys_are_new() -> None:
    assert len({new_key() for _ in range(100)}) == 100
    assert len(new_key()) == KEY_BYTES


def test_what_the_cipher_does_not_take_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, _key: bytes) -> None:
            raise OverflowError("Data or associated data too long. Max 2**31 - 1 bytes")

    monkeypatch.setattr(module, "ChaCha20Poly1305", Full)
    with pytest.raises(TooLongToSeal, match=r"3 bytes cannot be sealed at once; allowed: below 2\*\*31"):
        close_box(b"abc", key=KEY, context=b"")
    with pytest.raises(Altered):
        open_box(b"abc", key=KEY, context=b"", what="it")
