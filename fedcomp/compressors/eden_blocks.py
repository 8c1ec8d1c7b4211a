"""What EDEN does to the blocks of a vector: rotate, quantize, scale; each group of blocks at a rate of its own."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedcomp.coding.bitpack import pack_bits
from fedcomp.compressors.base import read_codes, read_floats, to_bytes
from fedcomp.compressors.blocks import RAW_BYTES, SCALE_BYTES, BlockPlan
from fedcomp.compressors.means import means_bytes, pack_means, unpack_means
from fedcomp.compressors.rates import code_bytes, split_block, total_code_bytes
from fedcomp.compressors.rows import chunk_means, chunks, largest, levels, power_of_two, put, take, to_unit_range
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.quantizers.codebook import dequantize, quantize
from fedcomp.transforms.hadamard import rotate, rotation_signs, unrotate


@dataclass(frozen=True)
class Rotation:
    """How blocks are rotated: the payload's seed and the number of rounds."""

    seed: int
    rounds: int


def block_means(x: Tensor, plan: BlockPlan) -> Tensor:
    """Return the means worth sending, 0 for the other blocks; shape (number of blocks,)."""
    return torch.cat([chunk_means(x, *chunk) for chunk in chunks(plan, x.device)] or [x.new_zeros(0)])


def energies_left(x: Tensor, plan: BlockPlan, means: Tensor) -> list[float]:
    """Return the squared norm of each group's blocks less their means: of what is rotated, so without the raw tail."""
    energies = dict.fromkeys(plan.groups, 0.0)
    used = 0
    for group, first, last in chunks(plan, x.device):
        blocks = take(x, group, first, last, subtract=means[used : used + last - first])
        energies[group] += float(blocks.double().square().sum())
        used += last - first
    return list(energies.values())


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
    scales: list[Tensor] = []
    codes: list[bytes] = []
    used = 0
    for group, first, last in chunks(plan, x.device):
        blocks = take(x, group, first, last, subtract=means[used : used + last - first])
        scale, packed = _quantize(blocks, signs, group.rate, unbiased=unbiased)
        scales.append(scale)
        codes.append(packed.cpu().numpy().tobytes())
        used += last - first
    all_scales = torch.cat(scales or [x.new_zeros(0)])
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
    scales_end = mean_bytes + SCALE_BYTES * plan.num_blocks
    codes_end = len(body) - RAW_BYTES * plan.raw
    means = unpack_means(body[:mean_bytes], plan.num_blocks).to(device)
    if not bool(torch.isfinite(means).all()):
        raise NonFinite(f"payload of dim {dim} holds a mean that is not finite; reject the sender")
    scales = read_floats(body[mean_bytes:scales_end], dim=dim).to(device)
    codes = read_codes(body[scales_end:codes_end], device)
    raw = read_floats(body[codes_end:], dim=dim).to(device)
    out = torch.empty(dim, dtype=torch.float32, device=device)
    signs = rotation_signs(rotation.seed, largest(plan), rounds=rotation.rounds, device=device)
    used_blocks = used_codes = 0
    for group, first, last in chunks(plan, device):
        m = last - first
        low, k = split_block(group.size, group.rate)
        length = m * code_bytes(group.size, group.rate)
        packed = codes[used_codes : used_codes + length].view(m, -1)
        cut = (low + 1) * k // 8
        centroid = torch.cat([levels(packed[:, :cut], k, low + 1), levels(packed[:, cut:], group.size - k, low)], dim=1)
        rows = slice(used_blocks, used_blocks + m)
        put(out, unrotate(centroid, signs) * scales[rows, None] + means[rows, None], group, first, last)
        used_blocks, used_codes = used_blocks + m, used_codes + length
    out[dim - plan.raw :] = raw
    # Near float32's limit an estimate may exceed a value that itself is finite.
    limit = torch.finfo(torch.float32).max
    return out.clamp_(-limit, limit)


def _quantize(blocks: Tensor, signs: Tensor, rate: int, *, unbiased: bool) -> tuple[Tensor, Tensor]:
    """Map blocks (m, n) to their scales (m,) and packed indices, a row a block: first k, then the others."""
    n = blocks.shape[1]
    low, k = split_block(n, rate)
    blocks, exponents = to_unit_range(blocks)
    norm2 = blocks.double().square().sum(dim=1)
    rotated = rotate(blocks, signs)
    # A zero block divides by one, so its indices are some constant; its scale of zero makes it decode to zero.
    rms = torch.sqrt(torch.where(norm2 > 0, norm2, 1.0) / n)
    z = rotated * (1 / rms).float()[:, None]
    inner = torch.zeros_like(norm2)
    energy = torch.zeros_like(norm2)
    packed = []
    for start, stop, bits in ((0, k, low + 1), (k, n, low)):
        if bits == 0 or start == stop:
            continue
        indices = quantize(z[:, start:stop].contiguous(), bits)
        centroid = dequantize(indices, bits).double()
        inner += (centroid * rotated[:, start:stop].double()).sum(dim=1)
        energy += centroid.square().sum(dim=1)
        packed.append(pack_bits(indices, bits))
    ratio = norm2 / inner if unbiased else inner / energy
    scale = torch.where(norm2 > 0, ratio, 0.0)
    return (scale * power_of_two(exponents)).float(), torch.cat(packed, dim=1)
