"""From a fuzzer's bytes to payloads that get past the header, into the schemes' own decoders.

The last byte of an input picks the form. Every form but the first is packed anew, with true lengths, fingerprint and
checksum, so that only the meaning can be wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Protocol, TypeVar

import torch

from fedcomp.compressors.catalogue import SCHEMES
from fedcomp.wire import HEADER_BYTES, pack, read_header
from tests.support import codec

SEED = 11
CORPUS = Path(__file__).parent / "corpus"
AS_IT_IS, REPAIRED, FIELDS, OVERWRITTEN = range(4)

SPECS = [scheme.name for scheme in SCHEMES]
SPECS += ["eden:bits=0.3,block=256", "eden:bits=2.5", "eden:bits=8", "hadamard:bits=5", "correlated:bits=1"]
SPECS += ["eden:bits=1,allocation=adaptive", "eden:bits=4,allocation=adaptive"]
SPECS += ["eden:bits=3,quantizer=trellis", "eden:bits=2,coding=entropy", "eden:bits=3,quantizer=trellis,coding=entropy"]
SPECS += ["eden:bits=2,allocation=adaptive,quantizer=trellis,states=4,coding=entropy"]
SPECS += ["qsgd:bits=2,bucket=64", "qsgd:levels=1,coding=entropy", "qsgd:bits=8,coding=entropy,norm=max"]
SPECS += ["topk:fraction=0.2", "randk:fraction=1.0", "powersgd:rank=1", "kashin:bits=1,expansion=8", "quicfl:bits=5"]
DIMS = [0, 1, 2, 3, 63, 100, 256, 257, 260, 300, 600, 1000]
HUGE_DIMS = [2**33, 2**33 + 1, 2**40, 2**60, 2**63, 2**64 - 1]
MAX_SMALL_DIM = 5000
NUMBERS = [struct.pack("<f", value) for value in (float("nan"), float("inf"), -3e38, 3e38, 1e-45, 0.0)]
# A signalling NaN as float32, float16 and bfloat16; an infinity as float16 and bfloat16.
NUMBERS += [struct.pack("<I", 0x7F800001), *(struct.pack("<H", bits) for bits in (0x7C01, 0x7F81, 0x7C00, 0x7F80))]
_HEADER = struct.Struct("<4sBBHQQI")
_T = TypeVar("_T")


class Provider(Protocol):
    """What is used of atheris.FuzzedDataProvider; it takes numbers from the end of its bytes, bytes from the start."""

    # The names are the library's own.
    def ConsumeIntInRange(self, low: int, high: int, /) -> int: ...  # noqa: N802
    def ConsumeBytes(self, count: int, /) -> bytes: ...  # noqa: N802
    def PickValueInList(self, values: list[_T], /) -> _T: ...  # noqa: N802
    def remaining_bytes(self) -> int: ...


def build_payload(provider: Provider) -> bytes:
    """Map the fuzzer's bytes to a payload."""
    form = provider.ConsumeIntInRange(AS_IT_IS, OVERWRITTEN)
    if form == AS_IT_IS:
        return provider.ConsumeBytes(provider.remaining_bytes())
    if form == REPAIRED:
        return _repaired(provider.ConsumeBytes(provider.remaining_bytes()))
    return _from_fields(provider) if form == FIELDS else _overwritten(provider)


def seed_inputs() -> Iterator[tuple[str, bytes]]:
    """Yield names and inputs: the kept corpus and honest payloads, each as it is and to be repaired."""
    payloads = {path.stem: path.read_bytes() for path in sorted(CORPUS.glob("*.bin"))}
    for spec in SPECS:
        payloads |= {f"honest-{spec}-{dim}": honest(spec, dim) for dim in DIMS}
    for name, payload in payloads.items():
        yield f"{name}-as-it-is", payload + bytes([AS_IT_IS])
        yield f"{name}-repaired", payload + bytes([REPAIRED])


@cache
def honest(spec: str, dim: int) -> bytes:
    """Return the payload of a vector whose mean is worth sending."""
    return codec.encode(spec, torch.linspace(1, 3, dim), seed=SEED)


def _repaired(data: bytes) -> bytes:
    """Return the payload that the bytes would be if lengths, fingerprint and checksum were right."""
    _, _, scheme, params_bytes, dim, _, _ = _HEADER.unpack_from(data.ljust(HEADER_BYTES, b"\0"))
    # A dim in between may honestly take long.
    dim = dim if dim <= MAX_SMALL_DIM or dim >= HUGE_DIMS[0] else dim % MAX_SMALL_DIM
    start = HEADER_BYTES + params_bytes
    return pack(scheme=scheme, dim=dim, params=data[HEADER_BYTES:start], body=data[start:], seed=SEED)


def _from_fields(provider: Provider) -> bytes:
    scheme = provider.PickValueInList([*(scheme.number for scheme in SCHEMES), 255])
    huge = provider.ConsumeIntInRange(0, 9) == 0
    dim = provider.PickValueInList(HUGE_DIMS) if huge else provider.ConsumeIntInRange(0, MAX_SMALL_DIM)
    params = provider.ConsumeBytes(provider.ConsumeIntInRange(0, 40))
    # A body of the right length is long: what is given is repeated.
    length = provider.ConsumeIntInRange(0, 2**14)
    body = provider.ConsumeBytes(provider.remaining_bytes()) or b"\0"
    return pack(scheme=scheme, dim=dim, params=params, body=(body * (length // len(body) + 1))[:length], seed=SEED)


def _overwritten(provider: Provider) -> bytes:
    payload = honest(provider.PickValueInList(SPECS), provider.PickValueInList(DIMS))
    header = read_header(payload)
    content = bytearray(payload[HEADER_BYTES:])
    for _ in range(provider.ConsumeIntInRange(0, 8)):
        place = provider.ConsumeIntInRange(0, len(content))
        count = provider.ConsumeIntInRange(0, 8)
        new = provider.ConsumeBytes(count) if count else provider.PickValueInList(NUMBERS)
        content[place : place + len(new)] = new
    dim = header.dim + provider.ConsumeIntInRange(0, 2) if provider.ConsumeIntInRange(0, 9) == 0 else header.dim
    cut = len(header.params)
    return pack(scheme=header.scheme, dim=dim, params=bytes(content[:cut]), body=bytes(content[cut:]), seed=SEED)
