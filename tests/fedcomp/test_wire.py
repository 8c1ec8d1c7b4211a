from __future__ import annotations

import struct
import subprocess
import sys
import time
from collections.abc import Callable

import pytest

from fedcomp.errors import (
    BadMagic,
    ChecksumMismatch,
    DimMismatch,
    PayloadError,
    SeedMismatch,
    TrailingBytes,
    Truncated,
    UnsupportedVersion,
)
from fedcomp.wire import HEADER_BYTES, bits_per_coordinate, pack, read_header, unpack

PAYLOAD = pack(scheme=7, dim=5, params=b"ab", body=b"0123456789", seed=3)


def test_the_header_is_golden() -> None:
    assert PAYLOAD.hex() == (
        "46444350"  # FDCP
        "01"  # version
        "07"  # scheme
        "0200"  # two bytes of parameters
        "0500000000000000"  # dim
        "0a00000000000000"  # ten bytes of body
        "95310ef7"  # fingerprint of seed 3
        "2d0edb82"  # CRC-32
        "6162"
        "30313233343536373839"
    )


def test_what_was_packed_comes_back() -> None:
    header, body = unpack(PAYLOAD, seed=3)
    assert (header.version, header.scheme, header.dim, header.params) == (1, 7, 5, b"ab")
    assert bytes(body) == b"0123456789"


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do(kind: type) -> None:
    assert bytes(unpack(kind(PAYLOAD), seed=3)[1]) == b"0123456789"


def test_bits_count_the_header() -> None:
    assert bits_per_coordinate(PAYLOAD) == 8 * (HEADER_BYTES + 2 + 10) / 5
    assert bits_per_coordinate(pack(scheme=0, dim=0, params=b"", body=b"", seed=0)) == float("inf")


def test_every_flipped_bit_is_found() -> None:
    for index in range(len(PAYLOAD)):
        for bit in range(8):
            damaged = bytearray(PAYLOAD)
            damaged[index] ^= 1 << bit
            with pytest.raises(PayloadError):
                unpack(damaged, seed=3)


def test_every_truncation_is_found() -> None:
    for length in range(len(PAYLOAD)):
        with pytest.raises(Truncated):
            unpack(PAYLOAD[:length], seed=3)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda p: b"GIF89a" + p, BadMagic, "begins with b'GIF8'"),
        (lambda p: p[:4] + b"\x02" + p[5:], UnsupportedVersion, "version 2, this release reads 1"),
        (lambda p: p + b"!", TrailingBytes, "45 bytes, its header says 44"),
        (lambda p: p[:-1] + b"!", ChecksumMismatch, "damaged"),
        (lambda p: p[:4], Truncated, "4 bytes, its header alone 32"),
    ],
)
def test_each_failure_has_its_own_error(
    change: Callable[[bytes], bytes], error: type[PayloadError], words: str
) -> None:
    with pytest.raises(error, match=words):
        unpack(change(PAYLOAD), seed=3)


def test_a_foreign_seed_is_told() -> None:
    with pytest.raises(SeedMismatch, match="seed 4 is not the one"):
        unpack(PAYLOAD, seed=4)


def test_dim_is_checked_before_anything_is_allocated() -> None:
    # A valid checksum is no promise: this header claims 2^60 coordinates and everything else about it is right.
    lying = pack(scheme=1, dim=2**60, params=b"\x02\x0e\x02\x00", body=b"", seed=3)
    started = time.perf_counter()
    with pytest.raises(DimMismatch, match="claims dim 1152921504606846976, allowed is at most 8589934592"):
        unpack(lying, seed=3)
    with pytest.raises(DimMismatch, match="expected is 6"):
        unpack(PAYLOAD, seed=3, expected_dim=6)
    assert time.perf_counter() - started < 1


def test_lengths_beyond_any_payload_are_truncations() -> None:
    lying = bytearray(PAYLOAD)
    struct.pack_into("<Q", lying, 16, 2**64 - 1)
    with pytest.raises(Truncated):
        read_header(lying)


def test_wire_never_loads_torch() -> None:
    code = (
        "import sys, fedcomp, fedcomp.wire, fedcomp.errors, fedcomp.seeds, fedcomp.compressors.catalogue\n"
        "fedcomp.available_compressors(); fedcomp.derive_seed(b's', 0, 0, 'x'); fedcomp.bits_per_coordinate\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
