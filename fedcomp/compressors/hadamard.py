"""Hadamard + SQ: rotate, then round stochastically between the smallest and the largest rotated coordinate.

Suresh, Yu, Kumar, McMahan, "Distributed mean estimation with limited communication", ICML 2017 (arXiv 1611.00429), §3.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.coding.bitpack import pack_bits, unpack_bits
from fedcomp.compressors.base import Compressor, check_body, check_params, read_codes, read_floats, to_bytes
from fedcomp.compressors.blocks import MIN_BLOCK, BlockPlan, plan_blocks, raw_is_shorter
from fedcomp.compressors.rows import chunks, largest, put, take
from fedcomp.config import Spec, integer_option, reject_unknown
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.kernels.eden_rows import rotate_rows, unrotate_rows
from fedcomp.quantizers.stochastic import round_stochastically
from fedcomp.transforms.hadamard import rotation_signs
from fedcomp.wire import Header

BLOCK = 16384
ROUNDS = 2
_PARAMS = struct.Struct("<BB")


@dataclass(frozen=True, repr=False)
class HadamardSQ(Compressor):
    """Send per block its rotated minimum and maximum as float32 and ``bits`` bits a coordinate.

    Guarantee: unbiased over the seed, whatever the rotation: each rotated coordinate is rounded without bias. Cost:
    linear in dim.

    Attributes
    ----------
    bits
        1 to 8: 2^bits levels from minimum to maximum.
    """

    number: ClassVar[int] = 3
    name: ClassVar[str] = "hadamard"

    bits: int = 2

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``hadamard:bits=2``."""
        reject_unknown("hadamard", spec.options, ("bits",))
        return cls(integer_option(spec, "bits", 2, low=1, high=8))

    @property
    def spec(self) -> Spec:
        """``hadamard`` with its bits."""
        return Spec("hadamard", {"bits": self.bits})

    @property
    def nominal_bits(self) -> float:
        """The bits of one coordinate; minimum and maximum add 0.4 % at one bit."""
        return float(self.bits)

    @property
    def is_unbiased(self) -> bool:
        """True."""
        return True

    def _ranges(self, rows: Tensor) -> Tensor:
        """Return the lowest and highest level of each block, shape (m, 2)."""
        return torch.stack([rows.amin(dim=1), rows.amax(dim=1)], dim=1)

    def _round(self, positions: Tensor, *, seed: int) -> Tensor:
        """Round positions between levels to levels, without bias."""
        return round_stochastically(positions, seed=seed)

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        raw_tail = raw_is_shorter(x.numel(), self.bits)
        plan = plan_blocks(x.numel(), block=BLOCK, raw_tail=raw_tail)
        signs = rotation_signs(seed, largest(plan), rounds=ROUNDS, device=x.device)
        rotated = [rotate_rows(take(x, *chunk), signs) for chunk in chunks(plan, x.device)]
        ranges = [self._ranges(rows) for rows in rotated]
        if not all(bool(torch.isfinite(item[:, 1] - item[:, 0]).all()) for item in ranges):
            raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
        positions = [_positions(rows, item, self.bits) for rows, item in zip(rotated, ranges, strict=True)]
        flat = torch.cat([item.reshape(-1) for item in positions] or [x.new_zeros(0)])
        rounded = self._round(flat, seed=seed).clamp_(0, 2**self.bits - 1)
        codes, start = [], 0
        for rows in rotated:
            part = rounded[start : start + rows.numel()].view(rows.shape)
            codes.append(pack_bits(part, self.bits).reshape(-1).cpu().numpy().tobytes())
            start += rows.numel()
        raw = x[x.numel() - plan.raw :]
        body = b"".join([*(to_bytes(item) for item in ranges), *codes, to_bytes(raw)])
        return _PARAMS.pack(self.bits, plan.raw), body

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map minima, maxima and packed levels to the estimate."""
        bits, plan = _read_params(header, cls.name)
        ranges_end = 8 * plan.num_blocks
        codes_end = ranges_end + plan.num_rotated * bits // 8
        check_body(header, body, codes_end + 4 * plan.raw, what=cls.name)
        ranges = read_floats(body[:ranges_end], dim=header.dim).view(-1, 2).to(device)
        raw = read_floats(body[codes_end:], dim=header.dim).to(device)
        codes = read_codes(body[ranges_end:codes_end], device)
        signs = rotation_signs(seed, largest(plan), rounds=ROUNDS, device=device)
        out = torch.empty(header.dim, dtype=torch.float32, device=device)
        used_blocks = used_codes = 0
        for group, first, last in chunks(plan, device):
            m = last - first
            length = m * group.size * bits // 8
            levels = unpack_bits(codes[used_codes : used_codes + length].view(m, -1), bits, group.size).float()
            low, high = ranges[used_blocks : used_blocks + m].unbind(dim=1)
            step = (high - low) / (2**bits - 1)
            put(out, unrotate_rows(low[:, None] + levels * step[:, None], signs), group, first, last)
            used_blocks, used_codes = used_blocks + m, used_codes + length
        out[header.dim - plan.raw :] = raw
        if not bool(torch.isfinite(out).all()):
            raise NonFinite(f"payload of dim {header.dim} decodes to values that are not finite; reject the sender")
        return out


def _positions(rows: Tensor, ranges: Tensor, bits: int) -> Tensor:
    """Return where each coordinate lies between its block's extremes, in units of a level."""
    low, span = ranges[:, :1], ranges[:, 1:] - ranges[:, :1]
    share = (rows - low) / torch.where(span > 0, span, torch.ones_like(span))
    return share * float(2**bits - 1)


def _read_params(header: Header, name: str) -> tuple[int, BlockPlan]:
    check_params(header, _PARAMS.size, what=name)
    bits, raw = _PARAMS.unpack(header.params)
    if not 1 <= bits <= 8 or raw not in (0, header.dim % MIN_BLOCK):
        raise InvalidParams(f"{name} has bits {bits}, raw {raw}; allowed: bits 1…8, raw 0 or {header.dim % MIN_BLOCK}")
    return bits, plan_blocks(header.dim, block=BLOCK, raw_tail=raw > 0)
