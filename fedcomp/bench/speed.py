"""How long encoding and decoding take, against a copy of the same vector's memory in the same run."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from fedcomp.bench.distributions import draw, square_shapes
from fedcomp.compressors.registry import compressor, decode
from fedcomp.errors import ConfigError
from fedcomp.seeds import derive_seed

T = TypeVar("T")
_CPU_INFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class SpeedResult:
    """What one compressor took for one dim; times are medians over the repeats.

    Attributes
    ----------
    spec, dim, repeats
        What was measured.
    device, threads, torch_version
        Where: the device's name, torch's CPU threads, torch's release.
    encode_ms, decode_ms
        Milliseconds from a vector on the device to bytes in the host's memory, and back.
    copy_ms
        Milliseconds of a copy of the vector on the device, timed between the encodings and decodings.
    encode_mcoords_per_s, decode_mcoords_per_s
        Million coordinates a second.
    encode_per_copy, decode_per_copy
        The times in copies: encode_ms / copy_ms and decode_ms / copy_ms.
    bits_per_coordinate
        8·(bytes of all payloads)/(coordinates of all vectors).
    """

    spec: str
    dim: int
    device: str
    threads: int
    torch_version: str
    repeats: int
    encode_ms: float
    decode_ms: float
    copy_ms: float
    encode_mcoords_per_s: float
    decode_mcoords_per_s: float
    encode_per_copy: float
    decode_per_copy: float
    bits_per_coordinate: float


def measure(spec: str, *, dim: int, repeats: int, seed: int, device: torch.device) -> SpeedResult:
    """Encode and decode one Gaussian vector ``repeats`` times after a round that is not counted, each with a new seed.

    Parameters
    ----------
    spec
        The compressor. It is told the shape of a matrix as square as ``dim`` allows, which some schemes need.
    seed
        Fixes vector and rotations.
    device
        Where the vector lies and is decoded to; on a GPU each time includes the wait for what was started.

    Raises
    ------
    ConfigError
        When the spec is wrong.
    """
    codec, shapes = compressor(spec), square_shapes(dim)
    secret = b"fedcomp bench speed" + seed.to_bytes(8, "little")
    x = draw("normal", dim, seed=derive_seed(secret, 0, 0, "vector") % 2**63).to(device)
    copy = partial(torch.empty_like(x).copy_, x)
    copies, encodings, decodings, sent = [], [], [], 0
    for repeat in range(repeats + 1):
        rotation = derive_seed(secret, repeat, 0, "rotation")
        # Machines are noisy: the copy beside each of the two sees the same neighbours.
        first_copy, _ = _timed(copy, device)
        encoding, payload = _timed(partial(codec.encode, x, seed=rotation, shapes=shapes), device)
        second_copy, _ = _timed(copy, device)
        decoding, _ = _timed(partial(decode, payload, seed=rotation, device=device), device)
        if repeat:
            copies += [first_copy, second_copy]
            encodings.append(encoding)
            decodings.append(decoding)
            sent += len(payload)
    copy_ms, encode_ms, decode_ms = (statistics.median(times) for times in (copies, encodings, decodings))
    return SpeedResult(
        spec=spec,
        dim=dim,
        device=device_name(device),
        threads=torch.get_num_threads(),
        torch_version=torch.__version__,
        repeats=repeats,
        encode_ms=encode_ms,
        decode_ms=decode_ms,
        copy_ms=copy_ms,
        encode_mcoords_per_s=dim / encode_ms / 1e3,
        decode_mcoords_per_s=dim / decode_ms / 1e3,
        encode_per_copy=encode_ms / copy_ms,
        decode_per_copy=decode_ms / copy_ms,
        bits_per_coordinate=8 * sent / (repeats * dim),
    )


def sweep(
    specs: Sequence[str], *, dims: Sequence[int], repeats: int, seed: int, device: torch.device
) -> Iterator[SpeedResult]:
    """Yield ``measure`` of every combination, as it is done."""
    for dim in dims:
        for spec in specs:
            yield measure(spec, dim=dim, repeats=repeats, seed=seed, device=device)


def choose_device(wanted: str) -> torch.device:
    """Map ``auto``, ``cpu`` or ``cuda`` to a device that is there; auto prefers a GPU.

    Raises
    ------
    ConfigError
        When it is another word or torch sees no CUDA device.
    """
    there = torch.cuda.is_available()
    if wanted not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"device is {wanted!r}; allowed: auto, cpu, cuda")
    if wanted == "cuda" and not there:
        raise ConfigError(f"device is 'cuda', but torch {torch.__version__} sees no CUDA device; use cpu")
    return torch.device("cuda" if there and wanted != "cpu" else "cpu")


def device_name(device: torch.device) -> str:
    """Return what the maker calls the device, such as ``NVIDIA H200``."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    try:
        lines = _CPU_INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


@contextmanager
def cpu_threads(count: int | None) -> Iterator[None]:
    """Let torch use ``count`` CPU threads meanwhile; None changes nothing."""
    before = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)


def _timed(action: Callable[[], T], device: torch.device) -> tuple[float, T]:
    """Return the milliseconds an action takes, all that it starts on a GPU included, and what it returns."""
    _finish(device)
    start = time.perf_counter_ns()
    result = action()
    _finish(device)
    return (time.perf_counter_ns() - start) / 1e6, result


def _finish(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
