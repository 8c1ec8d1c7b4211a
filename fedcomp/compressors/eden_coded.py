"""EDEN's blocks in a code other than the plain one: on a trellis, entropy coded, or both.

The body has the means, a float32 scale a block, the raw tail, and then the indices.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from fedcomp.coding.ans import WORD_BYTES
from fedcomp.compressors.base import read_floats, to_bytes
from fedcomp.compressors.blocks import RAW_BYTES, SCALE_BYTES, BlockPlan, Group
from fedcomp.compressors.eden_blocks import Rotation, grouped_blocks
from fedcomp.compressors.eden_codes import Code
from fedcomp.compressors.eden_indices import (
    PackedReader,
    PackedWriter,
    Reader,
    Segments,
    StreamReader,
    StreamWriter,
    Writer,
)
from fedcomp.compressors.means import means_bytes, pack_means, unpack_means
from fedcomp.compressors.rows import largest, put
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.kernels.eden_rows import rotate_rows, row_products, unrotate_rows
from fedcomp.kernels.reference import normalise
from fedcomp.transforms.hadamard import rotation_signs

# Rows are worked on so many coordinates at a time.
_CHUNK = {"cpu": 2**17, "cuda": 2**24}


def encode_coded(x: Tensor, plan: BlockPlan, means: Tensor, rotation: Rotation, code: Code, *, unbiased: bool) -> bytes:
    """Map a vector to the body; parameters and errors are those of ``eden_blocks.encode_blocks``."""
    signs = rotation_signs(rotation.seed, largest(plan), rounds=rotation.rounds, device=x.device)
    scales = [x.new_zeros(0)]
    writer: Writer = StreamWriter() if code.entropy else PackedWriter()
    for group, blocks, offsets in grouped_blocks(x, plan, means):
        segments = code.segments(group.size, group.rate)
        for rows in _chunks(group, x.device):
            scale, indices = _quantize(blocks[rows], offsets[rows], signs, segments, unbiased=unbiased)
            scales.append(scale)
            writer.add(indices, segments)
        writer.end_group()
    all_scales = torch.cat(scales)
    if not bool(torch.isfinite(all_scales).all()):
        raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
    return pack_means(means) + to_bytes(all_scales) + to_bytes(x[x.numel() - plan.raw :]) + writer.to_bytes()


class CodedBlocks:
    """The body of such a payload, read and checked; nothing is allocated before the lengths agree.

    Raises
    ------
    InvalidParams
        When the body has another length than the plan asks for, or its stream does not end where it should.
    NonFinite
        When a mean, a scale or a raw coordinate is not finite.
    """

    def __init__(
        self,
        body: memoryview,
        plan: BlockPlan,
        rotation: Rotation,
        code: Code,
        *,
        has_means: bool,
        device: torch.device,
    ) -> None:
        self._plan, self._rotation, self._code, self._device = plan, rotation, code, device
        mean_bytes = means_bytes(body, plan.num_blocks) if has_means else 0
        scales_end = (mean_bytes or 0) + SCALE_BYTES * plan.num_blocks
        raw_end = scales_end + RAW_BYTES * plan.raw
        coded = len(body) - raw_end
        least = code.least_bytes(plan) if code.entropy else code.plan_bytes(plan)
        fits = coded >= least and coded % WORD_BYTES == 0 if code.entropy else coded == least
        if mean_bytes is None or not fits:
            expected = f"whole words, {least} bytes or more," if code.entropy else f"{least} bytes"
            raise InvalidParams(
                f"{plan.num_blocks} blocks of {plan.num_rotated} coordinates have {raw_end} bytes of means, scales and "
                f"raw coordinates and {expected} of indices, not {len(body)} bytes in all; reject the sender"
            )
        dim = plan.num_rotated
        self._means = unpack_means(body[:mean_bytes], plan.num_blocks).to(device)
        if not bool(torch.isfinite(self._means).all()):
            raise NonFinite(f"payload of dim {dim} holds a mean that is not finite; reject the sender")
        self._scales = read_floats(body[mean_bytes:scales_end], dim=dim).to(device)
        self._raw = read_floats(body[scales_end:raw_end], dim=dim).to(device)
        self._indices: Reader = (
            StreamReader(body[raw_end:], plan, code, device)
            if code.entropy
            else PackedReader(body[raw_end:], plan, device)
        )

    def decode(self, dim: int) -> Tensor:
        """Return the estimate of the ``dim`` coordinates."""
        out = torch.empty(dim, dtype=torch.float32, device=self._device)
        for group, rows, estimate in self._estimates():
            put(out, estimate, group, rows.start, rows.stop)
        out[dim - self._plan.raw :] = self._raw
        return out

    def accumulate(self, into: Tensor, weight: float) -> None:
        """Add ``weight`` times the estimate to ``into``, float64."""
        for group, rows, estimate in self._estimates():
            start = group.start + rows.start * group.size
            stop = min(group.start + rows.stop * group.size, group.stop)
            into[start:stop].add_(estimate.reshape(-1)[: stop - start], alpha=weight)
        into[into.numel() - self._plan.raw :].add_(self._raw, alpha=weight)

    def _estimates(self) -> Iterator[tuple[Group, slice, Tensor]]:
        """Yield each group, some of its blocks and their estimates (m, n), clamped to float32's finite range."""
        signs = rotation_signs(
            self._rotation.seed, largest(self._plan), rounds=self._rotation.rounds, device=self._device
        )
        limit = torch.finfo(torch.float32).max
        used = 0
        for index, group in enumerate(self._plan.groups):
            segments = self._code.segments(group.size, group.rate)
            for rows in _chunks(group, self._device):
                levels = torch.zeros((rows.stop - rows.start, group.size), device=self._device)
                for segment, part in zip(segments, self._indices.parts(index, segments, rows), strict=True):
                    levels[:, segment.start : segment.stop] = segment.dequantize(part)
                at = slice(used + rows.start, used + rows.stop)
                estimate = unrotate_rows(levels, signs) * self._scales[at, None] + self._means[at, None]
                yield group, rows, estimate.clamp_(-limit, limit)
            used += group.count


def _quantize(
    blocks: Tensor, offsets: Tensor, signs: Tensor, segments: Segments, *, unbiased: bool
) -> tuple[Tensor, list[Tensor]]:
    """Map blocks (m, n) to their scales (m,) and indices, one tensor a segment."""
    rows = normalise(blocks, offsets, signs, rotation=rotate_rows)
    inner, energy = torch.zeros_like(rows.energy), torch.zeros_like(rows.energy)
    indices = []
    for segment in segments:
        part = segment.quantize(rows.z[:, segment.start : segment.stop].contiguous())
        levels = segment.dequantize(part)
        inner += row_products(levels, rows.rotated[:, segment.start : segment.stop])
        energy += row_products(levels, levels)
        indices.append(part)
    return rows.scale(inner, energy, unbiased=unbiased), indices


def _chunks(group: Group, device: torch.device) -> Iterator[slice]:
    step = max(1, _CHUNK.get(device.type, _CHUNK["cuda"]) // group.size)
    for first in range(0, group.count, step):
        yield slice(first, min(first + step, group.count))
