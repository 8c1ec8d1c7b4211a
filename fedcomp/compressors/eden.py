"""EDEN: rotate, quantize with the codebook of the normal law, scale so that the estimate is unbiased.

Vargaftik, Ben Basat, Portnoy, Mendelson, Ben-Itzhak, Mitzenmacher, "EDEN: Communication-efficient and robust
distributed mean estimation for federated learning", ICML 2022 (arXiv 2108.08842), §3. Other than the published code it
rotates twice, block by block, and counts every bit that it sends.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.coding.bitpack import pack_bits
from fedcomp.compressors.base import Compressor, check_params, read_codes, read_floats, to_bytes
from fedcomp.compressors.blocks import MIN_BLOCK, RAW_BYTES, SCALE_BYTES, BlockPlan, plan_blocks, raw_is_shorter
from fedcomp.compressors.means import means_bytes, pack_means, unpack_means
from fedcomp.compressors.rates import MAX_RATE, captured_share, choose_rate, code_bytes, split_block, total_code_bytes
from fedcomp.compressors.rows import chunk_means, chunks, largest, levels, power_of_two, put, take, to_unit_range
from fedcomp.config import Spec, choice_option, integer_option, reject_unknown
from fedcomp.errors import ConfigError, InvalidParams, NonFinite
from fedcomp.quantizers.codebook import DISTORTION, MAX_BITS, dequantize, quantize
from fedcomp.transforms.hadamard import rotate, rotation_signs, unrotate
from fedcomp.wire import HEADER_BYTES, Header

MAX_BLOCK = 2**24
MAX_ROUNDS = 4
SCALES = ("unbiased", "mmse")
_PARAMS = struct.Struct("<IBBBB")
_HAS_MEANS = 1


@dataclass(frozen=True, repr=False)
class Eden(Compressor):
    """Send per block one float32 scale, ``bits`` bits a rotated coordinate, and its mean where that pays.

    ``bits`` is a budget for the whole payload, and any real number: at 1.5 bits half of each block's coordinates get
    two bits and half get one, at 0.1 bits a tenth get one bit and the rest none. Where header, scales and means are
    more than 1 % of it, in vectors of less than some 50,000 coordinates or at low rates, they come on top.

    Guarantee: with ``scale="unbiased"`` and two or more rounds the mean over seeds is the input, and each payload
    satisfies ⟨x̂, x⟩ = ‖x‖² where no mean was sent. vNMSE = 1/c − 1 with c the share of the energy that the codebooks
    keep: 0.575, 0.134, 0.0360, 0.0097 at 1, 2, 3, 4 bits on any vector, less where a mean was sent. ``scale="mmse"``
    has the smaller error 1 − c and is biased; use it with error feedback. Cost: linear in dim.

    Attributes
    ----------
    bits
        Above 0, at most 8.
    block
        Coordinates rotated together, a power of two from 256 to 2^24.
    rounds
        Rounds of the rotation, 1 to 4; one round is biased on sparse vectors.
    scale
        ``"unbiased"`` or ``"mmse"``.
    """

    number: ClassVar[int] = 1

    bits: float = 2.0
    block: int = 16384
    rounds: int = 2
    scale: str = "unbiased"

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``eden:bits=2,block=16384,rounds=2,scale=unbiased``; every option has a default."""
        options = dict(spec.options)
        reject_unknown("eden", options, ("bits", "block", "rounds", "scale"))
        bits = options.get("bits", 2)
        if isinstance(bits, bool | str) or not 0 < bits <= MAX_BITS:
            raise ConfigError(f"eden: bits is {bits!r}; allowed: any number above 0, at most {MAX_BITS}")
        block = options.get("block", default_block(bits))
        if isinstance(block, bool) or block not in (2**k for k in range(8, 25)):
            raise ConfigError(f"eden: block is {block!r}; allowed: powers of two from {MIN_BLOCK} to {MAX_BLOCK}")
        rounds = integer_option(spec, "rounds", 2, low=1, high=MAX_ROUNDS)
        return cls(float(bits), int(block), rounds, choice_option(spec, "scale", SCALES))

    @property
    def spec(self) -> Spec:
        """``eden`` with all four options."""
        bits = int(self.bits) if self.bits.is_integer() else self.bits
        return Spec("eden", {"bits": bits, "block": self.block, "rounds": self.rounds, "scale": self.scale})

    @property
    def nominal_bits(self) -> float:
        """The budget."""
        return self.bits

    @property
    def is_unbiased(self) -> bool:
        """Whether the scale is the unbiased one and there are rounds enough to stand in for a uniform rotation."""
        return self.scale == "unbiased" and self.rounds >= 2

    def expected_vnmse(self, dim: int) -> float | None:
        """Return 1/c − 1, or 1 − c with ``scale="mmse"``; None below 4,096 coordinates: there the law is rough."""
        if dim < 4096:
            return None
        plan = self._plan(dim)
        rate = choose_rate(plan, room=self._room(dim, plan, side_bytes=0))
        captured = captured_share(plan, rate, DISTORTION)
        return 1 / captured - 1 if self.scale == "unbiased" else 1 - captured

    def _plan(self, dim: int) -> BlockPlan:
        return plan_blocks(dim, block=self.block, raw_tail=raw_is_shorter(dim, self.bits))

    def _room(self, dim: int, plan: BlockPlan, *, side_bytes: int) -> int:
        """Return the bytes that the quantized coordinates may have."""
        total = math.floor(self.bits * dim / 8)
        overhead = HEADER_BYTES + _PARAMS.size + side_bytes + SCALE_BYTES * plan.num_blocks + RAW_BYTES * plan.raw
        if 100 * overhead <= total:
            return total - overhead
        return math.floor(self.bits * plan.num_rotated / 8)

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        plan = self._plan(x.numel())
        means = torch.cat([chunk_means(x, *chunk) for chunk in chunks(plan, x.device)] or [x.new_zeros(0)])
        packed_means = pack_means(means)
        rate = choose_rate(plan, room=self._room(x.numel(), plan, side_bytes=len(packed_means)))
        signs = rotation_signs(seed, largest(plan), rounds=self.rounds, device=x.device)
        scales: list[Tensor] = []
        codes: list[Tensor] = []
        used = 0
        for group, first, last in chunks(plan, x.device):
            blocks = take(x, group, first, last, subtract=means[used : used + last - first])
            scale, packed = self._quantize(blocks, signs, rate)
            scales.append(scale)
            codes.append(packed)
            used += last - first
        all_scales = torch.cat(scales or [x.new_zeros(0)])
        if not bool(torch.isfinite(all_scales).all()):
            raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
        raw = x[x.numel() - plan.raw :]
        code_array = b"".join(part.cpu().numpy().tobytes() for part in codes)
        flags = _HAS_MEANS if packed_means else 0
        params = _PARAMS.pack(rate, self.block.bit_length() - 1, self.rounds, flags, plan.raw)
        return params, b"".join((packed_means, to_bytes(all_scales), code_array, to_bytes(raw)))

    def _quantize(self, blocks: Tensor, signs: Tensor, rate: int) -> tuple[Tensor, Tensor]:
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
        ratio = norm2 / inner if self.scale == "unbiased" else inner / energy
        scale = torch.where(norm2 > 0, ratio, 0.0)
        return (scale * power_of_two(exponents)).float(), torch.cat(packed, dim=1)

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map means, scales and packed indices to the estimate; nothing is allocated before the lengths agree."""
        rate, plan, rounds, mean_bytes = _read_params(header, body)
        scales_end = mean_bytes + 4 * plan.num_blocks
        codes_end = len(body) - 4 * plan.raw
        means = unpack_means(body[:mean_bytes], plan.num_blocks).to(device)
        if not bool(torch.isfinite(means).all()):
            raise NonFinite(f"payload of dim {header.dim} holds a mean that is not finite; reject the sender")
        scales = read_floats(body[mean_bytes:scales_end], dim=header.dim).to(device)
        codes = read_codes(body[scales_end:codes_end], device)
        raw = read_floats(body[codes_end:], dim=header.dim).to(device)
        out = torch.empty(header.dim, dtype=torch.float32, device=device)
        signs = rotation_signs(seed, largest(plan), rounds=rounds, device=device)
        used_blocks = used_codes = 0
        for group, first, last in chunks(plan, device):
            m = last - first
            low, k = split_block(group.size, rate)
            length = m * code_bytes(group.size, rate)
            packed = codes[used_codes : used_codes + length].view(m, -1)
            cut = (low + 1) * k // 8
            centroid = torch.cat(
                [levels(packed[:, :cut], k, low + 1), levels(packed[:, cut:], group.size - k, low)], dim=1
            )
            rows = slice(used_blocks, used_blocks + m)
            put(out, unrotate(centroid, signs) * scales[rows, None] + means[rows, None], group, first, last)
            used_blocks, used_codes = used_blocks + m, used_codes + length
        out[header.dim - plan.raw :] = raw
        # Near float32's limit an estimate may exceed a value that itself is finite.
        limit = torch.finfo(torch.float32).max
        return out.clamp_(-limit, limit)


def default_block(bits: float) -> int:
    """Return the block at which a float32 scale is at most 1 % of the block's bits, and not needlessly large."""
    block = 16384
    while block < MAX_BLOCK and bits * block < 3200:
        block *= 2
    return block


def _read_params(header: Header, body: memoryview) -> tuple[int, BlockPlan, int, int]:
    """Return (rate code, plan, rounds, bytes of the means) once they are possible and fit the body's length."""
    check_params(header, _PARAMS.size, what="eden")
    rate, log_block, rounds, flags, raw = _PARAMS.unpack(header.params)
    possible = rate <= MAX_RATE and 8 <= log_block <= 24 and 1 <= rounds <= MAX_ROUNDS and flags <= _HAS_MEANS
    if not possible or raw not in (0, header.dim % MIN_BLOCK):
        raise InvalidParams(
            f"eden parameters {header.params.hex()} say rate {rate}/65536, block 2^{log_block}, rounds {rounds}, flags "
            f"{flags}, raw {raw}; allowed: rate to 8, block 2^8…2^24, rounds 1…{MAX_ROUNDS}, flags 0 or 1, raw 0 or "
            f"{header.dim % MIN_BLOCK}"
        )
    plan = plan_blocks(header.dim, block=2**log_block, raw_tail=raw > 0)
    # The flags of the means are a bit a block: a body shorter than that is refused before they are read.
    mean_bytes = means_bytes(body, plan.num_blocks) if flags else 0
    expected = 4 * plan.num_blocks + total_code_bytes(plan, rate) + 4 * plan.raw
    if mean_bytes is None or len(body) != mean_bytes + expected:
        raise InvalidParams(
            f"eden of dim {header.dim}, rate {rate}/65536, block 2^{log_block} has {expected} bytes of body and "
            f"{mean_bytes} of means, not {len(body)}; reject the sender"
        )
    return rate, plan, rounds, mean_bytes
