"""Shared randomness: derived 64-bit seeds and a counter-based generator that gives the same words everywhere.

Encoder and decoder must draw the same signs on any machine, device and library version, so the generator is our own:
Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, §3.3), integers only.
Different uses of one seed read different streams and never overlap.
"""

from __future__ import annotations

import hashlib
import struct
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

SEED_LIMIT = 2**64
COHORT_CLIENT_ID = 2**64 - 1
"""Reserved client id: a seed that all clients of a round share (correlated schemes only)."""

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUNDS = 10


class Stream(IntEnum):
    """What the words are for; the number is part of the counter, so streams of one seed are independent."""

    ROTATION = 1
    ROUNDING = 2
    SAMPLING = 3
    PERMUTATION = 4


def derive_seed(run_secret: bytes, round_index: int, client_id: int, purpose: str) -> int:
    """Map (run secret, round, client, purpose) to a seed in [0, 2**64).

    Keyed BLAKE2b (RFC 7693): without the secret the seeds look random, and seeds of other rounds, clients or purposes
    tell nothing about this one.

    Parameters
    ----------
    run_secret
        At least one byte, known to the server only; 32 random bytes in a real deployment.
    round_index, client_id
        In [0, 2**64). ``COHORT_CLIENT_ID`` is reserved for seeds that a whole cohort shares.
    purpose
        What the seed is for, such as ``"rotation"``; not empty.

    Raises
    ------
    TypeError, ValueError
        When an argument is of the wrong type or out of range.
    """
    if not isinstance(run_secret, bytes | bytearray | memoryview):
        raise TypeError(f"run_secret is a {type(run_secret).__name__}; give bytes")
    if len(run_secret) == 0:
        raise ValueError("run_secret is empty; give at least one byte, 32 random bytes in a deployment")
    for name, value in (("round_index", round_index), ("client_id", client_id)):
        _check_uint64(name, value)
    if not isinstance(purpose, str) or not purpose:
        raise ValueError(f"purpose is {purpose!r}; give a non-empty string such as 'rotation'")
    # A key longer than 64 bytes is not allowed, so the secret is first hashed to 32.
    key = hashlib.blake2b(run_secret, digest_size=32, person=b"fedcomp-secret").digest()
    mac = hashlib.blake2b(key=key, digest_size=8, person=b"fedcomp-seed")
    mac.update(struct.pack("<QQ", round_index, client_id))
    mac.update(purpose.encode())
    return int.from_bytes(mac.digest(), "little")


def seed_fingerprint(seed: int) -> int:
    """Map a seed to 32 bits that tell whether two seeds agree and reveal nothing else of them.

    Raises
    ------
    TypeError, ValueError
        When ``seed`` is not an integer in [0, 2**64).
    """
    _check_uint64("seed", seed)
    digest = hashlib.blake2b(struct.pack("<Q", seed), digest_size=4, person=b"fedcomp-seed-fp").digest()
    return int.from_bytes(digest, "little")


def philox(counters: NDArray[np.uint32], key: tuple[int, int]) -> NDArray[np.uint32]:
    """Map n counters of shape (n, 4) to n blocks of four uint32 words, shape (n, 4), with Philox4x32-10."""
    c0, c1, c2, c3 = (counters[:, i].astype(np.uint64) for i in range(4))
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0, product1 = _MULTIPLIERS[0] * c0, _MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (
            (product1 >> _SHIFT) ^ c1 ^ np.uint64(k0),
            product1 & _LOW,
            (product0 >> _SHIFT) ^ c3 ^ np.uint64(k1),
            product0 & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def words(seed: int, stream: Stream, count: int, *, substream: int = 0) -> NDArray[np.uint32]:
    """Return the first ``count`` uint32 words of one stream of a seed.

    A prefix is always the same however many words are asked for. Cost: about 30 ns a word.

    Raises
    ------
    TypeError, ValueError
        When ``seed`` is not an integer in [0, 2**64).
    """
    _check_uint64("seed", seed)
    blocks = -(-count // 4)
    counters = np.zeros((blocks, 4), dtype=np.uint32)
    index = np.arange(blocks, dtype=np.uint64)
    counters[:, 0] = index & _LOW
    counters[:, 1] = index >> _SHIFT
    counters[:, 2] = int(stream)
    counters[:, 3] = substream
    return philox(counters, (seed & 0xFFFFFFFF, seed >> 32)).reshape(-1)[:count]


def rademacher_signs(seed: int, count: int, *, rotation_round: int) -> NDArray[np.float32]:
    """Return ``count`` independent signs, +1.0 or -1.0, for one round of the rotation; shape (count,), float32.

    Sign i is bit (i mod 32) of word i // 32, least significant first; a set bit is -1.
    """
    source = words(seed, Stream.ROTATION, -(-count // 32), substream=rotation_round)
    bits = np.unpackbits(source.astype("<u4").view(np.uint8), bitorder="little")[:count]
    return np.float32(1) - np.float32(2) * bits.astype(np.float32)


def uniforms(seed: int, count: int) -> NDArray[np.float32]:
    """Return ``count`` independent numbers for stochastic rounding, multiples of 2^-24 in [0, 1); float32."""
    return (words(seed, Stream.ROUNDING, count) >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def permutation(seed: int, count: int) -> NDArray[np.int64]:
    """Return a uniformly random order of ``range(count)``, the same on every machine."""
    keys = words(seed, Stream.PERMUTATION, 2 * count).astype(np.uint64)
    return np.argsort((keys[0::2] << _SHIFT) | keys[1::2], kind="stable")


def _check_uint64(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise TypeError(f"{name} is {value!r}, a {type(value).__name__}; give an integer in [0, 2**64)")
    if not 0 <= int(value) < SEED_LIMIT:
        raise ValueError(f"{name} is {value}; allowed: integers in [0, 2**64)")
