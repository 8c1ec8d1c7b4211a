from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedcomp.compressors.eden_codes import Code
from fedcomp.compressors.eden_params import PARAM_BYTES, EdenParams
from fedcomp.errors import InvalidParams
from fedcomp.wire import Header, pack, read_header

DIM = 256 + 44
STATES = (0, 4, 8, 16, 32, 64, 128, 256)


def header(params: bytes, dim: int = DIM) -> Header:
    return read_header(pack(scheme=1, dim=dim, params=params, body=b"", seed=1))


def unpack(params: bytes, dim: int = DIM) -> EdenParams:
    return EdenParams.unpack(header(params, dim), name="eden")


@given(
    st.integers(0, 8 * 65536),
    st.integers(8, 18),
    st.integers(1, 4),
    st.sampled_from([0, 44]),
    st.sampled_from(STATES),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
def test_they_come_back(
    rate: int, log: int, rounds: int, raw: int, states: int, entropy: bool, has_means: bool, adaptive: bool
) -> None:
    params = EdenParams(0 if adaptive else rate, 2**log, rounds, raw, Code(states, entropy), has_means, adaptive)
    packed = params.pack()
    assert len(packed) == PARAM_BYTES
    assert unpack(packed) == params


@pytest.mark.parametrize(
    ("params", "packed"),
    [
        (EdenParams(2 * 65536, 16384, 2, 44, Code(), False, False), "000002000e02002c"),
        (EdenParams(2 * 65536, 16384, 2, 44, Code(), True, False), "000002000e02012c"),
        (EdenParams(0, 256, 1, 0, Code(), False, True), "0000000008010200"),
        (EdenParams(1, 2**18, 4, 0, Code(0, True), False, False), "0100000012040400"),
        (EdenParams(65535, 4096, 2, 0, Code(4, False), False, False), "ffff00000c022000"),
        (EdenParams(65535, 4096, 2, 0, Code(256, True), True, False), "ffff00000c028500"),
    ],
)
def test_the_bytes_are_those_of_the_format(params: EdenParams, packed: str) -> None:
    assert params.pack().hex() == packed
    assert unpack(bytes.fromhex(packed)) == params


def possible(place: int, value: int) -> bool:
    """Whether the byte at a place of (rate 2 bits, block 2^14, rounds 2, flags 0, raw 0) may have the value."""
    log_states = value >> 4
    return {
        0: True,
        1: True,
        2: value <= 8,
        3: value == 0,
        4: 8 <= value <= 18,
        5: 1 <= value <= 4,
        6: not value & 8 and not value & 2 and log_states in (0, 2, 3, 4, 5, 6, 7, 8),
        7: value in (0, 44),
    }[place]


@pytest.mark.parametrize("place", range(8))
def test_every_impossible_byte_is_refused(place: int) -> None:
    for value in range(256):
        packed = bytearray(struct.pack("<IBBBB", 2 * 65536, 14, 2, 0, 0))
        packed[place] = value
        if possible(place, value):
            assert unpack(bytes(packed)).pack() == packed
        else:
            with pytest.raises(InvalidParams, match=f"eden parameters {packed.hex()} say"):
                unpack(bytes(packed))


def test_eight_bits_are_the_highest_rate() -> None:
    assert unpack(struct.pack("<IBBBB", 8 * 65536, 14, 2, 0, 0)).rate == 8 * 65536
    with pytest.raises(InvalidParams, match="rate 524289/65536"):
        unpack(struct.pack("<IBBBB", 8 * 65536 + 1, 14, 2, 0, 0))


def test_with_pools_the_rate_is_zero_and_the_tail_that_of_the_last_pool() -> None:
    assert unpack(struct.pack("<IBBBB", 0, 14, 2, 2, 201)).raw == 201
    for flags in range(256):
        with pytest.raises(InvalidParams):
            unpack(struct.pack("<IBBBB", 1, 14, 2, flags | 2, 0))


def test_the_message_says_what_is_allowed() -> None:
    with pytest.raises(InvalidParams, match=r"flags 31 \(2\^1 states\).*allowed: .* flags 0…7 and 16 times 0 or 2…8"):
        unpack(struct.pack("<IBBBB", 0, 14, 2, 31, 0))


@pytest.mark.parametrize("length", [0, 7, 9])
def test_another_number_of_bytes_is_refused(length: int) -> None:
    with pytest.raises(InvalidParams, match="8 bytes of parameters"):
        unpack(bytes(length))
