"""How a body holds the indices of its blocks: packed at whole bits, or as one stream of the entropy coder.

Packed, a block is a row, segment after segment. In the stream, group follows group, and in it each segment of all
blocks the next: an order that no device's chunk size changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcomp.coding import ans
from fedcomp.coding.bitpack import pack_bits, unpack_bits
from fedcomp.compressors.blocks import BlockPlan
from fedcomp.compressors.eden_codes import Code, Segment
from fedcomp.compressors.rates import code_bytes
from fedcomp.errors import InvalidParams

Segments = tuple[Segment, ...]
_TAKEN = 2**18
"""Indices are taken from the stream so many at a time: the coder returns four bytes each."""


class Writer(Protocol):
    """Takes the indices of chunk after chunk, group after group."""

    def add(self, indices: list[Tensor], segments: Segments) -> None:
        """Take some blocks' indices, a tensor (m, length) a segment."""

    def end_group(self) -> None:
        """Be told that the next chunk is of another group."""

    def to_bytes(self) -> bytes:
        """Return all of them."""


class Reader(Protocol):
    """Gives the indices of any blocks."""

    def parts(self, group: int, segments: Segments, rows: slice) -> Iterator[Tensor]:
        """Yield blocks ``rows`` of a group, a tensor (m, length) a segment."""


class PackedWriter:
    """Packs the indices of a segment at its bits."""

    def __init__(self) -> None:
        self._rows: list[bytes] = []

    def add(self, indices: list[Tensor], segments: Segments) -> None:
        """Take some blocks' indices."""
        parts = zip(indices, segments, strict=True)
        row = torch.cat([pack_bits(part, int(segment.bits)) for part, segment in parts], dim=1)
        self._rows.append(row.cpu().numpy().tobytes())

    def end_group(self) -> None:
        """Do nothing: rows follow each other anyway."""

    def to_bytes(self) -> bytes:
        """Return all rows."""
        return b"".join(self._rows)


class PackedReader:
    """Reads what ``PackedWriter`` wrote; the length has been checked."""

    def __init__(self, data: memoryview, plan: BlockPlan, device: torch.device) -> None:
        self._groups: list[NDArray[np.uint8]] = []
        self._device = device
        codes = np.frombuffer(data, dtype=np.uint8)
        used = 0
        for group in plan.groups:
            length = code_bytes(group.size, group.rate)
            self._groups.append(codes[used : used + group.count * length].reshape(group.count, length))
            used += group.count * length

    def parts(self, group: int, segments: Segments, rows: slice) -> Iterator[Tensor]:
        """Yield the indices of some blocks."""
        packed = torch.from_numpy(self._groups[group][rows].copy()).to(self._device)
        start = 0
        for segment in segments:
            count, bits = segment.stop - segment.start, int(segment.bits)
            yield unpack_bits(packed[:, start : start + count * bits // 8], bits, count)
            start += count * bits // 8


class StreamWriter:
    """Keeps the indices until all are there: the coder begins with the last."""

    def __init__(self) -> None:
        self._done: list[tuple[NDArray[np.integer], tuple[int, ...]]] = []
        self._group: list[tuple[list[NDArray[np.integer]], tuple[int, ...]]] = []

    def add(self, indices: list[Tensor], segments: Segments) -> None:
        """Take some blocks' indices."""
        if not self._group:
            self._group = [([], segment.frequencies) for segment in segments]
        for part, (kept, frequencies) in zip(indices, self._group, strict=True):
            kept.append(part.cpu().numpy().ravel().astype(_index_type(frequencies)))

    def end_group(self) -> None:
        """Put the group's chunks of each segment one after another."""
        self._done += [(part, frequencies) for kept, frequencies in self._group for part in kept]
        self._group = []

    def to_bytes(self) -> bytes:
        """Return the stream."""
        return ans.encode(self._done)


class StreamReader:
    """Takes all indices from a stream.

    Raises
    ------
    InvalidParams
        When the stream does not end where the indices do.
    """

    def __init__(self, data: memoryview, plan: BlockPlan, code: Code, device: torch.device) -> None:
        self._device = device
        self._groups: list[list[NDArray[np.integer]]] = []
        try:
            decoder = ans.Decoder(data)
        except ValueError as error:
            raise InvalidParams(f"the entropy-coded part of {len(data)} bytes has no end; reject the sender") from error
        for group in plan.groups:
            segments = code.segments(group.size, group.rate)
            self._groups.append([_take(decoder, group.count, segment) for segment in segments])
        if not decoder.is_empty:
            raise InvalidParams(
                f"the entropy-coded part of {len(data)} bytes does not end with its indices; reject the sender"
            )

    def parts(self, group: int, segments: Segments, rows: slice) -> Iterator[Tensor]:
        """Yield the indices of some blocks."""
        del segments
        for part in self._groups[group]:
            yield torch.from_numpy(part[rows]).to(self._device)


def _take(decoder: ans.Decoder, count: int, segment: Segment) -> NDArray[np.integer]:
    length = segment.stop - segment.start
    taken = np.empty(count * length, dtype=_index_type(segment.frequencies))
    for start in range(0, len(taken), _TAKEN):
        stop = min(start + _TAKEN, len(taken))
        taken[start:stop] = decoder.take(stop - start, segment.frequencies)
    return taken.reshape(count, length)


def _index_type(frequencies: tuple[int, ...]) -> type[np.uint8] | type[np.int16]:
    return np.uint8 if len(frequencies) <= 256 else np.int16
