"""The codes that EDEN can send rotated coordinates in: which part of a block gets which codebook at a rate.

A rate code is a rate in 1/65,536 of a bit (``fedcomp.compressors.rates``). It lies between two rates that a code has;
the first k coordinates of a block get the higher and the rest the lower one. A block of few bits is sent in the plain
code: an estimate is scaled by 1/⟨q, y⟩, and with less than some 500 bits of the others that product varies too much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache

import numpy as np
import torch
from torch import Tensor

from fedcomp.allocation.waterfill import Ladder
from fedcomp.compressors.blocks import BlockPlan, at_rate
from fedcomp.compressors.rates import MAX_RATE, ONE_BIT, Integers, code_bytes_each, split_block
from fedcomp.kernels.viterbi import Codebook, find_path, signed_levels
from fedcomp.quantizers import codebook, entropy_codes, trellis_levels

_LEAST_BITS = 512


@dataclass(frozen=True)
class Segment:
    """Consecutive coordinates of a block that are quantized alike.

    Attributes
    ----------
    start, stop
        Which coordinates.
    codebook
        Their levels.
    states
        Of the trellis; 1 when each coordinate is quantized on its own.
    bits
        What an index takes, on average when entropy coded.
    frequencies
        How often each index is met.
    gain
        What levels are multiplied by once they are chosen.
    distortion
        The share of the energy of N(0, 1) that is lost.
    """

    start: int
    stop: int
    codebook: Codebook
    states: int
    bits: float
    frequencies: tuple[int, ...]
    gain: float
    distortion: float

    def quantize(self, z: Tensor) -> Tensor:
        """Map values (m, stop − start) to indices, int16."""
        if self.states > 1:
            return find_path(z, self.codebook, states=self.states)
        levels = self._table(z.device)
        return torch.bucketize(z, (levels[1:] + levels[:-1]) / 2, out_int32=True).to(torch.int16)

    def dequantize(self, indices: Tensor) -> Tensor:
        """Map indices to their levels, float32."""
        levels = self.gain * self._table(indices.device)
        return signed_levels(indices, levels, states=self.states) if self.states > 1 else levels[indices.int()]

    def _table(self, device: torch.device) -> Tensor:
        return torch.tensor(self.codebook.levels, dtype=torch.float32, device=device)


@dataclass(frozen=True)
class Code:
    """How rotated coordinates are sent.

    Attributes
    ----------
    trellis_states
        0 for a quantizer of each coordinate on its own.
    entropy
        Whether indices are sent at the length of their entropy, else packed at whole bits.
    """

    trellis_states: int = 0
    entropy: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it is packed Lloyd-Max, which has kernels of its own."""
        return not self.trellis_states and not self.entropy

    @cached_property
    def ladder(self) -> Ladder:
        """The rates between which water is filled, and what they lose; with entropy coding some of many."""
        if not self.entropy:
            by_bits = trellis_levels.DISTORTION if self.trellis_states else codebook.DISTORTION
            return Ladder(np.arange(len(by_bits), dtype=np.float64), np.array(list(by_bits.values())))
        distortion = entropy_codes.trellis_distortion if self.trellis_states else entropy_codes.scalar_distortion
        rungs = [0, 2, 4, 6, 8, 12, *range(16, entropy_codes.MAX_RUNG + 1, 8)]
        return Ladder(np.array(rungs) / entropy_codes.RUNGS, np.array([distortion(rung) for rung in rungs]))

    def segments(self, size: int, rate: int) -> tuple[Segment, ...]:
        """Return the parts of a block at a rate code; what none covers is not sent and decodes to zero."""
        return _segments(self, size, rate)

    def plan_bytes(self, plan: BlockPlan) -> int:
        """Return the bytes of all blocks, each group at its rate; the expected ones with entropy coding."""
        if not plan.groups:
            return 0
        counts, sizes, rates = (
            np.array(column, dtype=np.int64)
            for column in zip(*((group.count, group.size, group.rate) for group in plan.groups), strict=True)
        )
        return int((counts * self.bytes_each(sizes, rates)).sum())

    def bytes_each(self, sizes: Integers, rates: Integers) -> Integers:
        """Return the bytes of a block of each size at each rate code."""
        packed = code_bytes_each(sizes, rates)
        if not self.entropy:
            return packed
        return np.where(sizes * rates >= _LEAST_BITS * ONE_BIT, sizes * rates // (8 * ONE_BIT), packed)

    def least_bytes(self, plan: BlockPlan) -> int:
        """Return a length that no entropy-coded stream of all blocks falls short of, so that a reader may allocate.

        An index of frequency f in F takes log2(F/f) bits, less a hundredth and, before the coder's number is large, a
        few bytes in all. In the plain code an index of zero takes nothing where the stream ends, so none counts.
        """
        bits = sum(
            group.count * (part.stop - part.start) * math.log2(sum(part.frequencies) / max(part.frequencies))
            for group in plan.groups
            if _is_coded(group.size, group.rate)
            for part in self.segments(group.size, group.rate)
        )
        return max(0, int(0.99 * bits / 8) - 16)

    def choose_rate(self, plan: BlockPlan, *, room: int) -> int:
        """Return the highest rate code at which the coordinates of all blocks fit ``room`` bytes, or 0."""
        low, high = 0, MAX_RATE
        while low < high:
            middle = (low + high + 1) // 2
            if self.plan_bytes(at_rate(plan, middle)) <= room:
                low = middle
            else:
                high = middle - 1
        return low

    def kept_share(self, plan: BlockPlan) -> float:
        """Return the expected share of a rotated vector's energy that is kept, Σ(1−D)/n."""
        kept = sum(
            group.count * (part.stop - part.start) * (1 - part.distortion)
            for group in plan.groups
            for part in self.segments(group.size, group.rate)
        )
        return kept / plan.num_rotated if plan.num_rotated else 1.0


@lru_cache(maxsize=1024)
def _segments(code: Code, size: int, rate: int) -> tuple[Segment, ...]:
    coded = _is_coded(size, rate)
    # Between two rungs a block is divided as it is between two whole numbers of bits.
    low, k = split_block(size, rate * entropy_codes.RUNGS if code.entropy and coded else rate)
    parts = [part for part in ((0, k, low + 1), (k, size, low)) if part[0] < part[1] and part[2]]
    if code.is_plain or not coded:
        return tuple(_plain(*part) for part in parts)
    kind = _entropy if code.entropy else _trellis
    return tuple(kind(*part, code.trellis_states) for part in parts)


def _is_coded(size: int, rate: int) -> bool:
    return size * rate >= _LEAST_BITS * ONE_BIT


def _plain(start: int, stop: int, bits: int) -> Segment:
    book = _lloyd_max(bits)
    return Segment(start, stop, book, 1, bits, (1,) * len(book.levels), 1.0, codebook.DISTORTION[bits])


@cache
def _lloyd_max(bits: int) -> Codebook:
    levels = tuple(codebook.centroids(bits, device=torch.device("cpu")).tolist())
    return Codebook(levels, (0.0,) * len(levels))


def _trellis(start: int, stop: int, bits: int, states: int) -> Segment:
    book = trellis_levels.trellis_codebook(bits)
    return Segment(start, stop, book, states, bits, (1,) * len(book.levels), 1.0, trellis_levels.DISTORTION[bits])


def _entropy(start: int, stop: int, rung: int, states: int) -> Segment:
    code = entropy_codes.trellis_code(rung) if states else entropy_codes.scalar_code(rung)
    distortion = entropy_codes.trellis_distortion(rung) if states else entropy_codes.scalar_distortion(rung)
    bits = rung / entropy_codes.RUNGS
    return Segment(start, stop, code.codebook, max(1, states), bits, code.frequencies, code.gain, distortion)
