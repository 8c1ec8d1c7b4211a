"""What EDEN does to the blocks of a vector: rotate, quantize, scale; each group of blocks at a rate of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from fedcomp.compressors.base import read_codes, read_floats, to_bytes
from fedcomp.compressors.blocks import RAW_BYTES, SCALE_BYTES, BlockPlan, Group
from fedcomp.compressors.means import means_bytes, pack_means, unpack_means, worthwhile_means
from fedcomp.compressors.rates import code_bytes, split_block, total_code_bytes
from fedcomp.compressors.rows import largest, put, take, unpadded_lengths
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.kernels.eden_rows import accumulate_rows, decode_rows, encode_rows, row_moments
from fedcomp.transforms.hadamard import rotation_signs


@dataclass(frozen=True)
class Rotation:
    """How blocks are rotated: the payload's seed and the number of rounds."""

    seed: int
    rounds: int


def block_means(x: Tensor, plan: BlockPlan) -> Tensor:
    """Return the means worth sending, 0 for the other blocks; shape (number of blocks,)."""
    found = [x.new_zeros(0)]
    for group in plan.groups:
        sums, energies = row_moments(take(x, group, 0, group.count), x.new_zeros(group.count))
        found.append(worthwhile_means(sums, energies, unpadded_lengths(group, x.device)))
    return torch.cat(found)


def energies_left(x: Tensor, plan: BlockPlan, means: Tensor) -> list[float]:
    """Return the squared norm of each group's blocks less their means: of what is rotated, so without the raw tail."""
    return [float(row_moments(*rows)[1].sum()) for _, *rows in grouped_blocks(x, plan, means)]


def encode_blocks(x: Tensor, plan: BlockPlan, means: Tensor, rotation: Rotation, *, unbiased: bool) -> bytes:
    """Map a vector to means, scales, codes of all blocks and the raw tail.

    Parameters
    ----------
    x
        Shape (n,), float32, finite.
    plan
        The cut of it, with a rate a group.
    means
        What ``block_means`` returned.
    unbiased
        Which scale.

    Raises
    ------
    NonFinite
        When a scale leaves float32's range.
    """
    signs = rotation_signs(rotation.seed, largest(plan), rounds=rotation.rounds, device=x.device)
    scales, codes = [x.new_zeros(0)], []
    for group, blocks, offsets in grouped_blocks(x, plan, means):
        low, k = split_block(group.size, group.rate)
        scale, packed = encode_rows(blocks, offsets, signs, low=low, k=k, unbiased=unbiased)
        scales.append(scale)
        codes.append(packed.cpu().numpy().data)
    all_scales = torch.cat(scales)
    if not bool(torch.isfinite(all_scales).all()):
        raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
    raw = x[x.numel() - plan.raw :]
    return b"".join((pack_means(means), to_bytes(all_scales), *codes, to_bytes(raw)))


def check_blocks(body: memoryview, plan: BlockPlan, *, has_means: bool) -> int:
    """Return the bytes of the means once the body has the length that the plan asks for; nothing is allocated before.

    Raises
    ------
    InvalidParams
        When it has another.
    """
    # The flags of the means are a bit a block: a body shorter than that is refused before they are read.
    mean_bytes = means_bytes(body, plan.num_blocks) if has_means else 0
    expected = SCALE_BYTES * plan.num_blocks + total_code_bytes(plan) + RAW_BYTES * plan.raw
    if mean_bytes is None or len(body) != mean_bytes + expected:
        raise InvalidParams(
            f"{plan.num_blocks} blocks of {plan.num_rotated} coordinates have {expected} bytes of body and "
            f"{mean_bytes} of means, not {len(body)}; reject the sender"
        )
    return mean_bytes


def decode_blocks(
    body: memoryview, plan: BlockPlan, rotation: Rotation, *, mean_bytes: int, dim: int, device: torch.device
) -> Tensor:
    """Map what ``encode_blocks`` wrote and ``check_blocks`` let pass to the estimate of the ``dim`` coordinates."""
    blocks = _read(body, plan, mean_bytes=mean_bytes, dim=dim, device=device)
    out = torch.empty(dim, dtype=torch.float32, device=device)
    for group, coded, low, k in _coded_groups(blocks, plan, rotation):
        if group.is_padded:
            decode_rows(*coded, low=low, k=k, out=(padded := out.new_empty(1, group.size)))
            put(out, padded, group, 0, 1)
        else:
            decode_rows(*coded, low=low, k=k, out=take(out, group, 0, group.count))
    out[dim - plan.raw :] = blocks.raw
    return out


def accumulate_blocks(
    body: memoryview, plan: BlockPlan, rotation: Rotation, *, mean_bytes: int, into: Tensor, weight: float
) -> None:
    """Add ``weight`` times what ``decode_blocks`` returns to ``into``, float64, without a second vector of its size.

    All that may be refused is, before the first addition.
    """
    blocks = _read(body, plan, mean_bytes=mean_bytes, dim=into.numel(), device=into.device)
    for group, coded, low, k in _coded_groups(blocks, plan, rotation):
        if group.is_padded:
            decode_rows(*coded, low=low, k=k, out=(padded := blocks.raw.new_empty(1, group.size)))
            part = into[group.start : group.stop]
            part.add_(padded[0, : len(part)], alpha=weight)
        else:
            accumulate_rows(*coded, low=low, k=k, into=take(into, group, 0, group.count), weight=weight)
    into[into.numel() - plan.raw :].add_(blocks.raw, alpha=weight)


def grouped_blocks(x: Tensor, plan: BlockPlan, means: Tensor) -> Iterator[tuple[Group, Tensor, Tensor]]:
    """Yield each group with its blocks (m, n) and what is still to be subtracted of them (m,)."""
    used = 0
    for group in plan.groups:
        blocks, offsets = take(x, group, 0, group.count), means[used : used + group.count]
        used += group.count
        if group.is_padded:
            # Padding is zero after the mean is taken away, so that it costs no energy.
            blocks[0, : group.stop - group.start] -= offsets
            offsets = torch.zeros_like(offsets)
        yield group, blocks, offsets


@dataclass(frozen=True)
class _Blocks:
    """What a body holds, each number of it finite: means and scales (one a block), codes of all blocks, raw tail."""

    means: Tensor
    scales: Tensor
    codes: Tensor
    raw: Tensor


def _read(body: memoryview, plan: BlockPlan, *, mean_bytes: int, dim: int, device: torch.device) -> _Blocks:
    scales_end = mean_bytes + SCALE_BYTES * plan.num_blocks
    codes_end = len(body) - RAW_BYTES * plan.raw
    means = unpack_means(body[:mean_bytes], plan.num_blocks).to(device)
    if not bool(torch.isfinite(means).all()):
        raise NonFinite(f"payload of dim {dim} holds a mean that is not finite; reject the sender")
    scales = read_floats(body[mean_bytes:scales_end], dim=dim).to(device)
    raw = read_floats(body[codes_end:], dim=dim).to(device)
    return _Blocks(means, scales, read_codes(body[scales_end:codes_end], device), raw)


def _coded_groups(
    blocks: _Blocks, plan: BlockPlan, rotation: Rotation
) -> Iterator[tuple[Group, tuple[Tensor, Tensor, Tensor, Tensor], int, int]]:
    """Yield each group with its codes, scales, means and the signs, and ``split_block``'s result."""
    signs = rotation_signs(rotation.seed, largest(plan), rounds=rotation.rounds, device=blocks.raw.device)
    used_blocks = used_codes = 0
    for group in plan.groups:
        low, k = split_block(group.size, group.rate)
        rows = slice(used_blocks, used_blocks + group.count)
        length = group.count * code_bytes(group.size, group.rate)
        codes = blocks.codes[used_codes : used_codes + length].view(group.count, -1)
        used_blocks, used_codes = used_blocks + group.count, used_codes + length
        yield group, (codes, blocks.scales[rows], blocks.means[rows], signs), low, k
