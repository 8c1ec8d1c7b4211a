"""Kashin + SQ: expand to Kashin coefficients, then round these stochastically.

Lyubarskii, Vershynin, "Uncertainty principles and vector quantization", IEEE Trans. Inf. Theory 56, 2010 (arXiv
math/0611343); with stochastic rounding Safaryan, Shulgin, Richtárik, "Uncertainty principle for communication
compression in distributed and federated learning and the search for an optimal compressor", 2020 (arXiv 2002.08958).
``fedcomp.transforms.kashin`` says how the coefficients are found. All of them are sent, so all of them are counted.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.coding.bitpack import pack_bits, unpack_bits
from fedcomp.compressors.base import Compressor, check_body, check_params, read_codes, read_floats, to_bytes
from fedcomp.compressors.blocks import MIN_BLOCK, RAW_BYTES, SCALE_BYTES, BlockPlan, Group, plan_blocks, raw_is_shorter
from fedcomp.compressors.rows import chunks, largest, put, round_up, take
from fedcomp.config import Spec, integer_option, reject_unknown
from fedcomp.errors import ConfigError, InvalidParams, NonFinite
from fedcomp.quantizers.stochastic import round_stochastically
from fedcomp.transforms.hadamard import rotation_signs
from fedcomp.transforms.kashin import LEVELS, kashin_coefficients, synthesize
from fedcomp.transforms.unit_range import power_of_two, to_unit_range
from fedcomp.wire import Header

COEFFICIENTS = 16384
"""Coefficients of a whole block."""

EXPANSIONS = tuple(LEVELS)
ROUNDS = 2

VNMSE: dict[int, tuple[float, ...]] = {
    2: (0.6578, 0.07862, 0.01581, 3.735e-3, 9.192e-4, 2.214e-4, 5.320e-5, 1.319e-5),
    4: (0.1768, 0.02341, 5.214e-3, 1.388e-3, 3.818e-4, 9.280e-5, 2.050e-5, 5.174e-6),
    8: (0.06823, 9.896e-3, 2.450e-3, 6.974e-4, 1.851e-4, 3.968e-5, 9.744e-6, 2.397e-6),
}
"""The error of whole blocks at 1 to 8 bits, by expansion: measured, to 0.2 %. It goes with the levels of clipping."""

_PARAMS = struct.Struct("<BBB")


@dataclass(frozen=True, repr=False)
class Kashin(Compressor):
    """Send per block its largest coefficient's magnitude as float32 and ``bits`` bits a Kashin coefficient.

    A vector has ``expansion`` times as many coefficients as coordinates, none much above their root mean square, so the
    levels need to reach less far than those of plain ``hadamard``. The body holds magnitudes, codes and the raw tail.

    Guarantee: unbiased over the seed, whatever the rotation: the coefficients give the vector exactly and each is
    rounded without bias. Cost: linear in dim; encoding rotates all coefficients 15, 13, 11 times for expansion 2, 4, 8,
    decoding once.

    Attributes
    ----------
    bits
        1 to 8: 2^bits levels from minus to plus the largest magnitude.
    expansion
        Coefficients a coordinate: 2, 4 or 8.
    """

    number: ClassVar[int] = 11

    bits: int = 2
    expansion: int = 2

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``kashin:bits=2,expansion=2``."""
        reject_unknown("kashin", spec.options, ("bits", "expansion"))
        bits = integer_option(spec, "bits", 2, low=1, high=8)
        expansion = spec.options.get("expansion", 2)
        if expansion not in EXPANSIONS:
            raise ConfigError(f"kashin: expansion is {expansion!r}; allowed: {', '.join(map(str, EXPANSIONS))}")
        return cls(bits, int(expansion))

    @property
    def spec(self) -> Spec:
        """``kashin`` with both options."""
        return Spec("kashin", {"bits": self.bits, "expansion": self.expansion})

    @property
    def nominal_bits(self) -> float:
        """The bits of all coefficients of one coordinate; the magnitudes add 0.2 % at one bit."""
        return float(self.bits * self.expansion)

    @property
    def is_unbiased(self) -> bool:
        """True."""
        return True

    def expected_vnmse(self, dim: int) -> float | None:
        """Return the error measured on whole blocks; None below 16,384 coordinates, where smaller blocks show.

        On longer vectors it is right within 1.5 %, and nearer the more of them is in whole blocks.
        """
        if dim < 16384:
            return None
        raw = dim % MIN_BLOCK if raw_is_shorter(dim, self.nominal_bits) else 0
        return VNMSE[self.expansion][self.bits - 1] * (1 - raw / dim)

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        plan = _plan(x.numel(), self.expansion, raw_tail=raw_is_shorter(x.numel(), self.nominal_bits))
        signs = rotation_signs(seed, largest(plan) * self.expansion, rounds=ROUNDS, device=x.device)
        parts = [self._positions(take(x, *chunk), signs) for chunk in _chunks(plan, self.expansion, x.device)]
        reaches = torch.cat([reach for reach, _ in parts] or [x.new_zeros(0)])
        if not bool(torch.isfinite(reaches).all()):
            raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
        flat = torch.cat([rows.reshape(-1) for _, rows in parts] or [x.new_zeros(0)])
        rounded = round_stochastically(flat, seed=seed).clamp_(0, 2**self.bits - 1)
        codes, start = [], 0
        for _, rows in parts:
            part = rounded[start : start + rows.numel()].view(rows.shape)
            codes.append(pack_bits(part, self.bits).cpu().numpy().tobytes())
            start += rows.numel()
        body = b"".join((to_bytes(reaches), *codes, to_bytes(x[x.numel() - plan.raw :])))
        return _PARAMS.pack(self.bits, self.expansion, plan.raw), body

    def _positions(self, blocks: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
        """Map blocks (m, n) to their reaches as sent, (m,), and where each coefficient lies between levels, (m, N)."""
        unit, exponents = to_unit_range(blocks)
        coefficients = kashin_coefficients(unit, signs, expansion=self.expansion)
        reach = round_up(coefficients.abs().amax(dim=1).double() * power_of_two(exponents))
        # What the decoder will take for the reach: at subnormal magnitudes float32 is coarse.
        sent = (reach.double() * power_of_two(-exponents)).float()[:, None]
        share = coefficients / torch.where(sent > 0, sent, 1.0) + 1
        return reach, share * ((2**self.bits - 1) / 2)

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map magnitudes and packed levels to the estimate; nothing is allocated before the lengths agree."""
        bits, expansion, plan = _read_params(header)
        reaches_end = SCALE_BYTES * plan.num_blocks
        codes_end = reaches_end + plan.num_rotated * expansion * bits // 8
        check_body(header, body, codes_end + RAW_BYTES * plan.raw, what="kashin")
        reaches = read_floats(body[:reaches_end], dim=header.dim).to(device)
        if bool((reaches < 0).any()):
            raise InvalidParams(f"kashin of dim {header.dim} holds a magnitude below zero; reject the sender")
        raw = read_floats(body[codes_end:], dim=header.dim).to(device)
        codes = read_codes(body[reaches_end:codes_end], device)
        signs = rotation_signs(seed, largest(plan) * expansion, rounds=ROUNDS, device=device)
        out = torch.empty(header.dim, dtype=torch.float32, device=device)
        top = 2**bits - 1
        used_blocks = used_codes = 0
        for group, first, last in _chunks(plan, expansion, device):
            m, count = last - first, group.size * expansion
            length = m * count * bits // 8
            levels = unpack_bits(codes[used_codes : used_codes + length].view(m, -1), bits, count).float()
            # In float64, where half a step of a subnormal reach is not rounded away.
            half_step = reaches[used_blocks : used_blocks + m, None].double() / top
            blocks = synthesize(2 * levels - top, signs, expansion=expansion).double() * half_step
            put(out, blocks.float(), group, first, last)
            used_blocks, used_codes = used_blocks + m, used_codes + length
        out[header.dim - plan.raw :] = raw
        # Near float32's limit an estimate may exceed a value that itself is finite.
        limit = torch.finfo(torch.float32).max
        return out.clamp_(-limit, limit)


def _plan(dim: int, expansion: int, *, raw_tail: bool) -> BlockPlan:
    return plan_blocks(dim, block=COEFFICIENTS // expansion, raw_tail=raw_tail)


def _chunks(plan: BlockPlan, expansion: int, device: torch.device) -> Iterator[tuple[Group, int, int]]:
    """Yield (group, first block, last block) so that the coefficients of a chunk fit the device's fast memory."""
    for group, first, last in chunks(plan, device):
        step = -(-(last - first) // expansion)
        for start in range(first, last, step):
            yield group, start, min(start + step, last)


def _read_params(header: Header) -> tuple[int, int, BlockPlan]:
    check_params(header, _PARAMS.size, what="kashin")
    bits, expansion, raw = _PARAMS.unpack(header.params)
    if not 1 <= bits <= 8 or expansion not in EXPANSIONS or raw not in (0, header.dim % MIN_BLOCK):
        raise InvalidParams(
            f"kashin has bits {bits}, expansion {expansion}, raw {raw}; allowed: bits 1…8, expansion 2, 4 or 8, raw 0 "
            f"or {header.dim % MIN_BLOCK}"
        )
    return bits, expansion, _plan(header.dim, expansion, raw_tail=raw > 0)
