"""How long encoding and decoding take, against a copy of the same vector's memory in the same run."""

from __future__ import annotations

import math
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch

from fedcomp.bench import textbook
from fedcomp.bench.coders import Coder, SchemeCoder
from fedcomp.bench.distributions import draw, square_shapes
from fedcomp.bench.peak import peak_bytes
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
        What was measured, and how often in the time that there was.
    device, threads, torch_version
        Where: the device's name, torch's CPU threads, torch's release.
    encode_ms, decode_ms
        Milliseconds from a vector on the device to bytes in the host's memory, and back.
    add_ms
        Milliseconds of adding a payload to a MeanEstimator.
    copy_ms
        Milliseconds of a copy of the vector on the device, timed before each of these.
    encode_mcoords_per_s, decode_mcoords_per_s
        Million coordinates a second.
    encode_per_copy, decode_per_copy, add_per_copy
        The times in copies: encode_ms / copy_ms and so on.
    bits_per_coordinate
        8·(bytes of all payloads)/(coordinates of all vectors).
    encode_memory
        The most memory that encoding takes beside the vector, as a share of the vector's bytes; None where unknown.
    times_textbook
        How many times longer encoding and decoding take the textbook's code; None when that was not measured.
    """

    spec: str
    dim: int
    device: str
    threads: int
    torch_version: str
    repeats: int
    encode_ms: float
    decode_ms: float
    add_ms: float
    copy_ms: float
    encode_mcoords_per_s: float
    decode_mcoords_per_s: float
    encode_per_copy: float
    decode_per_copy: float
    add_per_copy: float
    bits_per_coordinate: float
    encode_memory: float | None
    times_textbook: float | None = None


def measure(
    spec: str, *, dim: int, repeats: int, seed: int, device: torch.device, seconds: float = math.inf
) -> SpeedResult:
    """Encode and decode one Gaussian vector ``repeats`` times after a round that is not counted, each with a new seed.

    Parameters
    ----------
    spec
        The compressor, or ``textbook.NAME``. It is told the shape of a matrix as square as ``dim`` allows, which some
        schemes need.
    seed
        Fixes vector and rotations.
    device
        Where the vector lies and is decoded to; on a GPU each time includes the wait for what was started.
    seconds
        After so many no further repeat is begun; one is always made.

    Raises
    ------
    ConfigError
        When the spec is wrong.
    """
    coder = _coder(spec, dim, device)
    secret = b"fedcomp bench speed" + seed.to_bytes(8, "little")
    x = draw("normal", dim, seed=derive_seed(secret, 0, 0, "vector") % 2**63).to(device)
    copy = partial(torch.empty_like(x).copy_, x)
    copies, encodings, decodings, additions, sent = [], [], [], [], 0
    for repeat in range(repeats + 1):
        rotation = derive_seed(secret, repeat, 0, "rotation")
        # Machines are noisy: the copy beside each of the three sees the same neighbours.
        times = [_timed(copy, device)[0]]
        encoding, payload = _timed(partial(coder.encode, x, rotation), device)
        times.append(_timed(copy, device)[0])
        decoding, _ = _timed(partial(coder.decode, payload, rotation), device)
        times.append(_timed(copy, device)[0])
        addition, _ = _timed(partial(coder.add, payload, rotation), device)
        if repeat:
            copies += times
            encodings.append(encoding)
            decodings.append(decoding)
            additions.append(addition)
            sent += coder.size(payload)
            if sum(copies + encodings + decodings + additions) > 1e3 * seconds:
                break
    peak = peak_bytes(partial(coder.encode, x, derive_seed(secret, 0, 0, "rotation")), device)
    measured = (statistics.median(times) for times in (copies, encodings, decodings, additions))
    copy_ms, encode_ms, decode_ms, add_ms = measured
    return SpeedResult(
        spec=spec,
        dim=dim,
        device=device_name(device),
        threads=torch.get_num_threads(),
        torch_version=torch.__version__,
        repeats=len(encodings),
        encode_ms=encode_ms,
        decode_ms=decode_ms,
        add_ms=add_ms,
        copy_ms=copy_ms,
        encode_mcoords_per_s=dim / encode_ms / 1e3,
        decode_mcoords_per_s=dim / decode_ms / 1e3,
        encode_per_copy=encode_ms / copy_ms,
        decode_per_copy=decode_ms / copy_ms,
        add_per_copy=add_ms / copy_ms,
        bits_per_coordinate=8 * sent / (len(encodings) * dim),
        encode_memory=None if peak is None else peak / (4 * dim),
    )


def sweep(
    specs: Sequence[str],
    *,
    dims: Sequence[int],
    repeats: int,
    seed: int,
    device: torch.device,
    seconds: float = math.inf,
) -> Iterator[SpeedResult]:
    """Yield ``measure`` of the textbook's code and of every spec for each dim, as it is done."""
    for dim in dims:
        base = measure(textbook.NAME, dim=dim, repeats=repeats, seed=seed, device=device, seconds=seconds)
        yield replace(base, times_textbook=1.0)
        for spec in specs:
            found = measure(spec, dim=dim, repeats=repeats, seed=seed, device=device, seconds=seconds)
            ratio = (base.encode_ms + base.decode_ms) / (found.encode_ms + found.decode_ms)
            yield replace(found, times_textbook=ratio)


def _coder(spec: str, dim: int, device: torch.device) -> Coder[Any]:
    if spec == textbook.NAME:
        return textbook.TextbookEden(dim, device)
    return SchemeCoder(spec, dim, device, shapes=square_shapes(dim))


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
