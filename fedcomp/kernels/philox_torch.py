"""The seed words of ``fedcomp.seeds`` in torch: Philox4x32-10 where the tensors are, on a CPU or a CUDA device.

Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011, §3.3. Words are held as int64, since
torch has no arithmetic on uint32; only integers are used, so every device gives the words of ``fedcomp.seeds.words``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from fedcomp.seeds import SEED_LIMIT, Stream

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_ROUNDS = 10

# So many counters at a time: half a MiB a column stays in a CPU's cache; on a GPU launches are what must be few.
_CHUNK = {"cpu": 2**16, "cuda": 2**22}


def philox(counters: Tensor, key: tuple[int, int]) -> Tensor:
    """Map n counters to n blocks of four words with Philox4x32-10.

    Parameters
    ----------
    counters
        Shape (n, 4), int64 values in [0, 2**32).
    key
        Two integers in [0, 2**32).

    Returns
    -------
    Tensor
        Shape (n, 4), int64 values in [0, 2**32), on the counters' device. Cost: about 200 operations a block.
    """
    c0, c1, c2, c3 = counters.unbind(dim=1)
    k0, k1 = key
    for _ in range(_ROUNDS):
        high0, low0 = _multiply(c0, _MULTIPLIERS[0])
        high1, low1 = _multiply(c2, _MULTIPLIERS[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = (k0 + _WEYL[0]) & _LOW, (k1 + _WEYL[1]) & _LOW
    return torch.stack([c0, c1, c2, c3], dim=1)


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
        Where the words are made and stay.

    Returns
    -------
    Tensor
        Shape (count,), int64 values in [0, 2**32).

    Raises
    ------
    TypeError, ValueError
        When ``seed`` or ``substream`` is not an integer in its range.
    """
    return torch.cat(list(_chunks(seed, stream, count, substream, torch.device(device))))


def rademacher_signs(seed: int, count: int, *, rotation_round: int, device: str | torch.device) -> Tensor:
    """Return the signs of ``fedcomp.seeds.rademacher_signs``: +1.0 or -1.0, shape (count,), float32, on ``device``.

    Raises
    ------
    TypeError, ValueError
        As ``words``.
    """
    return signs_of_words(words(seed, Stream.ROTATION, -(-count // 32), substream=rotation_round, device=device), count)


def uniforms(seed: int, count: int, *, device: str | torch.device) -> Tensor:
    """Return the numbers of ``fedcomp.seeds.uniforms``: multiples of 2^-24 in [0, 1), shape (count,), float32.

    Raises
    ------
    TypeError, ValueError
        As ``words``.
    """
    drawn = _chunks(seed, Stream.ROUNDING, count, 0, torch.device(device))
    return torch.cat([uniforms_of_words(chunk) for chunk in drawn])


def signs_of_words(source: Tensor, count: int) -> Tensor:
    """Map words to the first ``count`` signs: sign i is bit (i mod 32) of word i // 32, a set bit is -1; float32."""
    bits = (source[:, None] >> torch.arange(32, device=source.device)) & 1
    return (1 - 2 * bits).reshape(-1)[:count].to(torch.float32)


def uniforms_of_words(source: Tensor) -> Tensor:
    """Map words to the multiple of 2^-24 in [0, 1) that their upper 24 bits give; float32, exactly."""
    return (source >> 8).to(torch.float32) * 2**-24


def philox_key(seed: int, substream: int) -> tuple[int, int]:
    """Return the key of a seed, low word first; raises TypeError or ValueError when an argument is out of range."""
    for name, value, limit, text in (("seed", seed, SEED_LIMIT, "2**64"), ("substream", substream, 2**32, "2**32")):
        if isinstance(value, bool) or not isinstance(value, int | np.integer):
            raise TypeError(f"{name} is {value!r}, a {type(value).__name__}; give an integer in [0, {text})")
        if not 0 <= int(value) < limit:
            raise ValueError(f"{name} is {value}; allowed: integers in [0, {text})")
    return int(seed) & _LOW, int(seed) >> 32


def _chunks(seed: int, stream: Stream, count: int, substream: int, device: torch.device) -> Iterator[Tensor]:
    """Yield the words in order, some at a time, so that the memory for counters does not grow with ``count``."""
    key = philox_key(seed, substream)
    step = _CHUNK.get(device.type, _CHUNK["cuda"])
    blocks = -(-count // 4)
    for first in range(0, max(blocks, 1), step):
        counters = _counters(first, min(first + step, blocks), (int(stream), int(substream)), device)
        yield philox(counters, key).reshape(-1)[: count - 4 * first]


def _counters(first: int, last: int, purpose: tuple[int, int], device: torch.device) -> Tensor:
    """Return counters ``first`` to ``last``: low and high word of the index, stream, substream; shape (n, 4)."""
    index = torch.arange(first, last, device=device)
    return torch.stack([index & _LOW, index >> 32, *(torch.full_like(index, number) for number in purpose)], dim=1)


def _multiply(x: Tensor, multiplier: int) -> tuple[Tensor, Tensor]:
    """Return the high and the low word of x·multiplier, both factors below 2^32.

    The product has 64 bits, one too many for int64. With the multiplier split into halves of 16 bits,
    x·m = 2^16·(x·m_high + ⌊x·m_low / 2^16⌋) + (x·m_low mod 2^16), and nothing exceeds 2^49.
    """
    lower = x * (multiplier & 0xFFFF)
    upper = x * (multiplier >> 16) + (lower >> 16)
    return upper >> 16, ((upper & 0xFFFF) << 16) | (lower & 0xFFFF)
