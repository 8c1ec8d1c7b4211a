"""The seed words of ``fedcomp.seeds`` as one Triton kernel: Philox4x32-10 in the uint32 registers of a GPU.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, §3.3. Triton is no dependency; it
comes with a CUDA build of torch. Without it this module can be imported all the same, and its functions say what to
install.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from fedcomp.errors import ConfigError
from fedcomp.kernels.philox_torch import philox_key, signs_of_words, uniforms_of_words
from fedcomp.seeds import Stream

try:
    import triton
    import triton.language as tl
except ImportError:
    _INSTALLED = False
else:
    _INSTALLED = True

_COUNTERS_A_PROGRAM = 256


def words(seed: int, stream: Stream, count: int, *, substream: int = 0, device: str | torch.device) -> Tensor:
    """Return the first ``count`` words of one stream of a seed: those of ``fedcomp.seeds.words``.

    Parameters
    ----------
    seed
        In [0, 2**64).
    stream, substream
        What the words are for; the substream is in [0, 2**32).
    count
        How many; a prefix is always the same.
    device
        A CUDA device, where the words stay. Triton's interpreter (``TRITON_INTERPRET=1``) takes a CPU too.

    Returns
    -------
    Tensor
        Shape (count,), int64 values in [0, 2**32). Cost: one launch, 8 bytes written a word.

    Raises
    ------
    ConfigError
        When Triton is not installed or the device is not a CUDA device.
    TypeError, ValueError
        When ``seed`` or ``substream`` is not an integer in its range.
    """
    return _draw(philox_key(seed, substream), (int(stream), int(substream)), count, first=0, device=device)


def rademacher_signs(seed: int, count: int, *, rotation_round: int, device: str | torch.device) -> Tensor:
    """Return the signs of ``fedcomp.seeds.rademacher_signs``: +1.0 or -1.0, shape (count,), float32, on ``device``.

    Raises
    ------
    ConfigError, TypeError, ValueError
        As ``words``.
    """
    source = words(seed, Stream.ROTATION, -(-count // 32), substream=rotation_round, device=device)
    return signs_of_words(source, count)


def uniforms(seed: int, count: int, *, device: str | torch.device) -> Tensor:
    """Return the numbers of ``fedcomp.seeds.uniforms``: multiples of 2^-24 in [0, 1), shape (count,), float32.

    Raises
    ------
    ConfigError, TypeError, ValueError
        As ``words``.
    """
    return uniforms_of_words(words(seed, Stream.ROUNDING, count, device=device))


def _draw(
    key: tuple[int, int], purpose: tuple[int, int], count: int, *, first: int, device: str | torch.device
) -> Tensor:
    """Return ``count`` words from counter ``first`` on."""
    kernel = _kernel()
    place = torch.device(device)
    if place.type != "cuda" and isinstance(kernel, triton.JITFunction):
        raise ConfigError(
            f"device is '{place}'; Triton runs on a CUDA device, fedcomp.kernels.philox_torch gives the same words here"
        )
    out = torch.empty(count, dtype=torch.int64, device=place)
    if count:
        grid = (triton.cdiv(count, 4 * _COUNTERS_A_PROGRAM),)
        # Triton launches on the current device, which need not be this one; -1 leaves it as it is.
        with torch.cuda.device(out.device if out.is_cuda else -1):
            kernel[grid](out, count, first, *key, *purpose, size=_COUNTERS_A_PROGRAM)
    return out


@cache
def _kernel() -> Any:
    if not _INSTALLED:
        raise ConfigError(
            "Triton is not installed; run `pip install triton` (Linux; it comes with a CUDA build of torch), "
            "or use fedcomp.kernels.philox_torch, which gives the same words"
        )
    # Without this a value of 1 or a multiple of 16 would be compiled in, once for each seed that has one.
    numbers = ["count", "first", "key0", "key1", "stream", "substream"]
    return triton.jit(_write_words, do_not_specialize=numbers)


def _write_words(
    out: tl.tensor,
    count: tl.tensor,
    first: tl.tensor,
    key0: tl.tensor,
    key1: tl.tensor,
    stream: tl.tensor,
    substream: tl.tensor,
    size: tl.constexpr,
) -> None:
    # Triton's compiler reads this source: every name in it, annotations too, must be its own.
    place = tl.program_id(0).to(tl.int64) * size + tl.arange(0, size)
    index = first + place
    c0, c1 = index.to(tl.uint32), (index >> 32).to(tl.uint32)
    c2, c3 = tl.full([size], stream, tl.uint32), tl.full([size], substream, tl.uint32)
    k0, k1 = key0.to(tl.uint32), key1.to(tl.uint32)
    for _ in tl.static_range(10):
        # uint32 wraps on purpose, which Triton's debug mode would take for a mistake.
        low0 = tl.mul(c0, 0xD2511F53, sanitize_overflow=False)
        low1 = tl.mul(c2, 0xCD9E8D57, sanitize_overflow=False)
        high0, high1 = tl.umulhi(c0, 0xD2511F53), tl.umulhi(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0 = tl.add(k0, 0x9E3779B9, sanitize_overflow=False)
        k1 = tl.add(k1, 0xBB67AE85, sanitize_overflow=False)
    target = 4 * place
    tl.store(out + target, c0.to(tl.int64), mask=target < count)
    tl.store(out + target + 1, c1.to(tl.int64), mask=target + 1 < count)
    tl.store(out + target + 2, c2.to(tl.int64), mask=target + 2 < count)
    tl.store(out + target + 3, c3.to(tl.int64), mask=target + 3 < count)
