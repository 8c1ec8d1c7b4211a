"""Decodes TensorFlow's ``tf.train.Example``: a map from names to lists of bytes, floats or integers.

The messages (tensorflow/core/example/example.proto and feature.proto), by field number:
``Example {1: Features}``, ``Features {1: map entry {1: name, 2: Feature}}``,
``Feature {1: BytesList | 2: FloatList | 3: Int64List}``, each list ``{1: repeated value}``, numbers packed or not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedcomp.data.errors import MalformedData

Feature = list[bytes] | NDArray[np.float32] | NDArray[np.int64]

_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_BYTES, _FLOATS, _INTEGERS = 1, 2, 3
_LONGEST_VARINT = 10


def parse_example(message: bytes) -> dict[str, Feature]:
    """Map a serialized ``tf.train.Example`` to its features by name.

    Raises
    ------
    MalformedData
        When the bytes are no such message.
    """
    features: dict[str, Feature] = {}
    for _, value in _fields(message, 1):
        for _, entry in _fields(_length_delimited(value), 1):
            name, feature = b"", b""
            for number, part in _fields(_length_delimited(entry)):
                if number == 1:
                    name = _length_delimited(part)
                elif number == 2:
                    feature = _length_delimited(part)
            try:
                features[name.decode()] = _parse_feature(feature)
            except UnicodeDecodeError as error:
                raise MalformedData(f"tf.train.Example: a feature's name is {name!r}, which is not UTF-8") from error
    return features


def _parse_feature(message: bytes) -> Feature:
    found: Feature = []
    for kind, part in _fields(message):
        values = [value for _, value in _fields(_length_delimited(part), 1)]
        if kind == _BYTES:
            found = [_length_delimited(value) for value in values]
        elif kind == _FLOATS:
            found = np.frombuffer(b"".join(_float_bytes(value) for value in values), dtype="<f4").astype(np.float32)
        elif kind == _INTEGERS:
            numbers = [number for value in values for number in _integers(value)]
            found = np.array(numbers, dtype=np.uint64).astype(np.int64)
    return found


def _float_bytes(value: bytes | int) -> bytes:
    if isinstance(value, int) or len(value) % 4:
        raise MalformedData("tf.train.Example: a list of floats is not a multiple of 4 bytes")
    return value


def _integers(value: bytes | int) -> Iterator[int]:
    if isinstance(value, int):
        yield value
        return
    at = 0
    while at < len(value):
        number, at = _varint(value, at)
        yield number


def _length_delimited(value: bytes | int) -> bytes:
    if isinstance(value, int):
        raise MalformedData("tf.train.Example: a number where a message or bytes should be")
    return value


def _fields(message: bytes, wanted: int | None = None) -> Iterator[tuple[int, bytes | int]]:
    """Yield (field number, value) in order, of ``wanted`` only if given; a varint is an int, all else bytes."""
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        value: bytes | int
        if wire_type == _VARINT:
            value, at = _varint(message, at)
        elif wire_type in (_LENGTH, _FIXED32, _FIXED64):
            if wire_type == _LENGTH:
                length, at = _varint(message, at)
            else:
                length = 4 if wire_type == _FIXED32 else 8
            if length > end - at:
                raise MalformedData(f"tf.train.Example: a field of {length} bytes where {end - at} are left")
            value = message[at : at + length]
            at += length
        else:
            raise MalformedData(f"tf.train.Example: wire type {wire_type}; allowed: 0, 1, 2, 5")
        if wanted is None or number == wanted:
            yield number, value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return (the number, below 2^64, and where the next byte is)."""
    result = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        result |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return result & (2**64 - 1), at + place + 1
    raise MalformedData("tf.train.Example: a number has no end")
