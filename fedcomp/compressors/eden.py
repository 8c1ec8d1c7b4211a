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

from fedcomp.compressors.base import Compressor, check_params
from fedcomp.compressors.blocks import (
    MIN_BLOCK,
    RAW_BYTES,
    SCALE_BYTES,
    BlockPlan,
    at_rate,
    plan_blocks,
    raw_is_shorter,
)
from fedcomp.compressors.eden_blocks import Rotation, block_means, check_blocks, decode_blocks, encode_blocks
from fedcomp.compressors.means import pack_means
from fedcomp.compressors.rates import MAX_RATE, captured_share, choose_rate
from fedcomp.config import Spec, choice_option, integer_option, reject_unknown
from fedcomp.errors import ConfigError, InvalidParams
from fedcomp.quantizers.codebook import DISTORTION, MAX_BITS
from fedcomp.wire import HEADER_BYTES, Header

MAX_BLOCK = 2**18
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
        Coordinates rotated together, a power of two from 256 to 2^18.
    rounds
        Rounds of the rotation, 1 to 4; one round is biased on sparse vectors.
    scale
        ``"unbiased"`` or ``"mmse"``.
    """

    number: ClassVar[int] = 1
    name: ClassVar[str] = "eden"

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
        if isinstance(block, bool) or block not in (2**k for k in range(8, MAX_BLOCK.bit_length())):
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
        captured = captured_share(at_rate(plan, rate), DISTORTION)
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
        means = block_means(x, plan)
        side_bytes = len(pack_means(means))
        rate = choose_rate(plan, room=self._room(x.numel(), plan, side_bytes=side_bytes))
        rated = at_rate(plan, rate)
        body = encode_blocks(x, rated, means, Rotation(seed, self.rounds), unbiased=self.scale == "unbiased")
        flags = _HAS_MEANS if side_bytes else 0
        return _PARAMS.pack(rate, self.block.bit_length() - 1, self.rounds, flags, plan.raw), body

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map means, scales and packed indices to the estimate; nothing is allocated before the lengths agree."""
        plan, rounds, has_means = _read_params(header, cls.name)
        mean_bytes = check_blocks(body, plan, has_means=has_means)
        rotation = Rotation(seed, rounds)
        return decode_blocks(body, plan, rotation, mean_bytes=mean_bytes, dim=header.dim, device=device)


def default_block(bits: float) -> int:
    """Return the block at which a float32 scale is at most 1 % of the block's bits, and not needlessly large."""
    block = 16384
    while block < MAX_BLOCK and bits * block < 3200:
        block *= 2
    return block


def _read_params(header: Header, name: str) -> tuple[BlockPlan, int, bool]:
    """Return (plan, rounds, whether there are means) once the parameters are possible."""
    check_params(header, _PARAMS.size, what=name)
    rate, log_block, rounds, flags, raw = _PARAMS.unpack(header.params)
    possible = (
        rate <= MAX_RATE
        and 8 <= log_block < MAX_BLOCK.bit_length()
        and 1 <= rounds <= MAX_ROUNDS
        and flags <= _HAS_MEANS
    )
    if not possible or raw not in (0, header.dim % MIN_BLOCK):
        raise InvalidParams(
            f"{name} parameters {header.params.hex()} say rate {rate}/65536, block 2^{log_block}, rounds {rounds}, "
            f"flags {flags}, raw {raw}; allowed: rate to 8, block 2^8…2^18, rounds 1…{MAX_ROUNDS}, flags 0 or 1, "
            f"raw 0 or {header.dim % MIN_BLOCK}"
        )
    plan = plan_blocks(header.dim, block=2**log_block, raw_tail=raw > 0)
    return at_rate(plan, rate), rounds, bool(flags)
