from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.data.errors import MalformedData
from fedcomp.data.tf_example import parse_example
from tests.support.femnist_forms import tf_example

FEATURES = st.dictionaries(
    st.text(max_size=5).filter(lambda name: name != "self"),
    st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=5),
        st.lists(st.binary(max_size=300), min_size=1, max_size=3),
        st.lists(st.floats(width=32, allow_nan=False), max_size=50).map(lambda values: np.array(values, np.float32)),
    ),
    max_size=4,
)


@given(FEATURES)
def test_decodes_what_protobuf_encodes(features: dict[str, object]) -> None:
    found = parse_example(tf_example(**features))
    assert set(found) == set(features)
    for name, values in features.items():
        assert list(found[name]) == list(values)  # type: ignore[call-overload]
        if isinstance(values, np.ndarray):
            assert isinstance(found[name], np.ndarray)


def field(number: int, wire_type: int, content: bytes) -> bytes:
    length = bytes([len(content)]) if wire_type == 2 else b""
    return bytes([number << 3 | wire_type]) + length + content


def example(feature: bytes) -> bytes:
    entry = field(1, 2, b"a") + field(2, 2, feature)
    return field(1, 2, field(1, 2, entry))


def test_numbers_need_not_be_packed() -> None:
    integers = example(field(3, 2, field(1, 0, b"\x05") + field(1, 0, b"\xac\x02")))
    assert parse_example(integers)["a"].tolist() == [5, 300]  # type: ignore[union-attr]
    one = np.float32(1.5).tobytes()
    floats = example(field(2, 2, field(1, 5, one) + field(1, 5, one)))
    assert parse_example(floats)["a"].tolist() == [1.5, 1.5]  # type: ignore[union-attr]


def test_unknown_fields_are_passed_over() -> None:
    message = field(9, 0, b"\x01") + field(9, 1, bytes(8)) + example(field(3, 2, field(1, 0, b"\x05")))
    assert set(parse_example(message)) == {"a"}


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (b"\x0a\x05\x01", "a field of 5 bytes where 1 are left"),
        (b"\x0a", "a number has no end"),
        (b"\xff" * 11, "a number has no end"),
        (b"\x08\x01", "a number where a message"),
        (b"\x0b", "wire type 3"),
        (example(field(2, 2, field(1, 2, b"abc"))), "not a multiple of 4"),
        (field(1, 2, field(1, 2, field(1, 2, b"\xff"))), "not UTF-8"),
    ],
)
def test_what_is_no_example(message: bytes, words: str) -> None:
    with pytest.raises(MalformedData, match=words):
        parse_example(message)


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(message: bytes) -> None:
    with contextlib.suppress(MalformedData):
        parse_example(message)


@given(FEATURES, st.data())
def test_damaged_examples_are_decoded_or_refused(features: dict[str, object], data: st.DataObject) -> None:
    message = bytearray(tf_example(**features))
    if message:
        message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(MalformedData):
        parse_example(bytes(message[: data.draw(st.integers(0, len(message)))]))
