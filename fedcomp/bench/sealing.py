"""How long sealing a payload takes, against encoding it in the same run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from fedcomp.bench.distributions import draw
from fedcomp.compressors.registry import compressor
from fedcomp.sealing.envelope import Direction, Header, Seal
from fedcomp.seeds import derive_seed

T = TypeVar("T")
_HEADER = Header(Direction.REPLY, "bench", 1, "site", bytes(16))
_BOX = "payload"


@dataclass(frozen=True)
class SealingResult:
    """What one compressor's payloads took; times are the least of the repeats, in milliseconds.

    Attributes
    ----------
    spec, dim, repeats
        What was measured, and how often.
    payload_bytes
        Length of the payload; the box is 16 bytes longer.
    encode_ms
        From a vector in the host's memory to the payload.
    seal_ms, open_ms
        From the payload to the box, with the keys for one message made anew, and back.
    seal_share
        seal_ms / encode_ms.
    """

    spec: str
    dim: int
    repeats: int
    payload_bytes: int
    encode_ms: float
    seal_ms: float
    open_ms: float
    seal_share: float


def measure(spec: str, *, dim: int, repeats: int, seed: int) -> SealingResult:
    """Encode, seal and open one Gaussian vector ``repeats`` times after a round that is not counted.

    Raises
    ------
    ConfigError
        When the spec is wrong.
    """
    codec = compressor(spec)
    server, site = X25519PrivateKey.generate(), X25519PrivateKey.generate()
    secret = b"fedcomp bench seal" + seed.to_bytes(8, "little")
    x = draw("normal", dim, seed=derive_seed(secret, 0, 0, "vector") % 2**63)

    def close(payload: bytes) -> tuple[bytes, bytes]:
        seal = Seal.to_send(_HEADER, sender=site, recipient=server.public_key())
        return seal.head, seal.close(_BOX, payload)

    def open_again(head: bytes, box: bytes) -> bytes:
        return Seal.received(head, recipient=server, sender=site.public_key()).open(_BOX, box)

    times: list[tuple[float, float, float]] = []
    payload = b""
    for repeat in range(repeats + 1):
        rotation = derive_seed(secret, repeat, 0, "rotation")
        encoding, payload = _timed(partial(codec.encode, x, seed=rotation))
        sealing, sealed = _timed(partial(close, payload))
        opening, _ = _timed(partial(open_again, *sealed))
        times.append((encoding, sealing, opening))
    encode_ms, seal_ms, open_ms = (min(column) for column in zip(*times[1:], strict=True))
    return SealingResult(spec, dim, repeats, len(payload), encode_ms, seal_ms, open_ms, seal_ms / encode_ms)


def sweep(specs: Sequence[str], *, dims: Sequence[int], repeats: int, seed: int) -> Iterator[SealingResult]:
    """Yield a result for each combination, in order; raises ConfigError when a spec is wrong."""
    for dim, spec in product(dims, specs):
        yield measure(spec, dim=dim, repeats=repeats, seed=seed)


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    started = time.perf_counter()
    result = work()
    return 1e3 * (time.perf_counter() - started), result
