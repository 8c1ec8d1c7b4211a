"""How near EDEN's kernels come to a GPU's memory bandwidth: their bytes a second against a copy of the same vector."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from fedcomp.bench.speed import device_name
from fedcomp.errors import ConfigError

BLOCK = 16384
# A scale of 32 bits a block comes out of the budget: so many coordinates of a block have one bit less.
_SHORT = 32


class Rows(Protocol):
    """What is measured: ``fedcomp.kernels.eden_rows``, or a module with the same functions."""

    encode_rows: Callable[..., tuple[Tensor, Tensor]]
    decode_rows: Callable[..., None]
    accumulate_rows: Callable[..., None]


@dataclass(frozen=True)
class BandwidthResult:
    """What one operation took; times are medians over the repeats.

    Attributes
    ----------
    operation
        ``copy``, ``encode``, ``decode`` or ``accumulate``.
    bits, dim
        Bits a coordinate, scale included (32 for the copy), and coordinates: whole blocks of 16384.
    device
        The device's name.
    ms
        Milliseconds, by the device's own clock.
    gigabytes_per_s
        10^9 bytes a second that the operation must read and write at least: 8 a coordinate to copy, 4 and the codes to
        encode or decode, 16 and the codes to accumulate in float64.
    share_of_copy
        That in terms of the copy's, which is timed in between.
    """

    operation: str
    bits: int
    dim: int
    device: str
    ms: float
    gigabytes_per_s: float
    share_of_copy: float


def require_cuda() -> torch.device:
    """Return the current CUDA device.

    Raises
    ------
    ConfigError
        When torch sees none.
    """
    if not torch.cuda.is_available():
        raise ConfigError(
            f"bench gpu needs a CUDA device, and torch {torch.__version__} sees none; run it on a machine with an "
            "NVIDIA GPU and a CUDA build of torch, which brings Triton; `fedcomp bench speed` measures a CPU"
        )
    return torch.device("cuda", torch.cuda.current_device())


def sweep(
    rows: Rows, signs: Tensor, *, bits: Sequence[int], dim: int, repeats: int, device: torch.device
) -> Iterator[BandwidthResult]:
    """Yield the results of encoding, decoding and accumulating at each rate, the copy's first.

    Parameters
    ----------
    rows
        The functions to measure.
    signs
        Shape (rounds, ≥ 16384), on the device.
    dim
        Coordinates; a block that is begun counts whole. The device needs 17 bytes a coordinate.
    """
    m = -(-dim // BLOCK)
    blocks = torch.randn((m, BLOCK), device=device)
    means, target = torch.zeros(m, device=device), torch.empty_like(blocks)
    total = torch.zeros((m, BLOCK), dtype=torch.float64, device=device)
    result = partial(_result, m * BLOCK, device)
    copy = partial(target.copy_, blocks)
    (copy_ms,) = _medians([copy], repeats, device)
    copy_speed = 8 * m * BLOCK / copy_ms
    yield result("copy", 32, copy_ms, moved=8 * m * BLOCK, copy_speed=copy_speed)
    for rate in bits:
        part = {"low": rate - 1, "k": BLOCK - _SHORT}
        scales, codes = rows.encode_rows(blocks, means, signs, **part, unbiased=True)
        actions: dict[str, tuple[Callable[[], Any], int]] = {
            "encode": (partial(rows.encode_rows, blocks, means, signs, **part, unbiased=True), 4),
            "decode": (partial(rows.decode_rows, codes, scales, means, signs, **part, out=target), 4),
            "accumulate": (
                partial(rows.accumulate_rows, codes, scales, means, signs, **part, into=total, weight=1.0),
                16,
            ),
        }
        copy_ms, *times = _medians([copy, *(action for action, _ in actions.values())], repeats, device)
        copy_speed = 8 * m * BLOCK / copy_ms
        for (name, (_, width)), ms in zip(actions.items(), times, strict=True):
            yield result(name, rate, ms, moved=width * m * BLOCK + codes.numel(), copy_speed=copy_speed)


def _result(
    dim: int, device: torch.device, operation: str, bits: int, ms: float, *, moved: int, copy_speed: float
) -> BandwidthResult:
    speed = moved / ms
    return BandwidthResult(operation, bits, dim, device_name(device), ms, speed / 1e6, speed / copy_speed)


def _medians(actions: Sequence[Callable[[], Any]], repeats: int, device: torch.device) -> list[float]:
    """Return the median milliseconds of each action, all taken in turn after a round that is not counted."""
    rounds = [[_milliseconds(action, device) for action in actions] for _ in range(repeats + 1)]
    return [statistics.median(times) for times in zip(*rounds[1:], strict=True)]


def _milliseconds(action: Callable[[], Any], device: torch.device) -> float:
    if device.type != "cuda":
        start = time.perf_counter_ns()
        action()
        return (time.perf_counter_ns() - start) / 1e6
    event: Any = torch.cuda.Event
    first, last = event(enable_timing=True), event(enable_timing=True)
    first.record()
    action()
    last.record()
    last.synchronize()
    return float(first.elapsed_time(last))
