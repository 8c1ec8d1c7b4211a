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

from fedcomp.compressors.base import COORDINATES_PER_BYTE, Compressor, Shapes, check_params
from fedcomp.compressors.blocks import (
    MIN_BLOCK,
    RAW_BYTES,
    SCALE_BYTES,
    BlockPlan,
    at_rate,
    plan_blocks,
    raw_is_shorter,
)
from fedcomp.compressors.eden_adaptive import DETAILS, decode_adaptive, draft_payload, find_layout
from fedcomp.compressors.eden_blocks import (
    Rotation,
    block_means,
    check_blocks,
    decode_blocks,
    encode_blocks,
    energies_left,
)
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
ALLOCATIONS = ("uniform", "adaptive")
_HAS_MEANS, _ADAPTIVE = 1, 2


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
    allocation
        ``"uniform"``: the same rate everywhere. ``"adaptive"``: coordinates of like energy are pooled, and each pool
        has the rate that it is worth; far less error where a vector's energy is uneven, as a model update's is, most of
        all when ``encode`` is told the tensors' ``shapes``, and never more than a little.
    """

    number: ClassVar[int] = 1
    name: ClassVar[str] = "eden"

    bits: float = 2.0
    block: int = 16384
    rounds: int = 2
    scale: str = "unbiased"
    allocation: str = "uniform"

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``eden:bits=2,block=16384,rounds=2,scale=unbiased``; every option has a default."""
        options = dict(spec.options)
        reject_unknown("eden", options, ("bits", "block", "rounds", "scale", "allocation"))
        bits = options.get("bits", 2)
        if isinstance(bits, bool | str) or not 0 < bits <= MAX_BITS:
            raise ConfigError(f"eden: bits is {bits!r}; allowed: any number above 0, at most {MAX_BITS}")
        block = options.get("block", default_block(bits))
        if isinstance(block, bool) or block not in (2**k for k in range(8, MAX_BLOCK.bit_length())):
            raise ConfigError(f"eden: block is {block!r}; allowed: powers of two from {MIN_BLOCK} to {MAX_BLOCK}")
        rounds = integer_option(spec, "rounds", 2, low=1, high=MAX_ROUNDS)
        scale, allocation = choice_option(spec, "scale", SCALES), choice_option(spec, "allocation", ALLOCATIONS)
        return cls(float(bits), int(block), rounds, scale, allocation)

    @property
    def spec(self) -> Spec:
        """``eden`` with all its options."""
        bits = int(self.bits) if self.bits.is_integer() else self.bits
        options = {"bits": bits, "block": self.block, "rounds": self.rounds, "scale": self.scale}
        return Spec("eden", {**options, "allocation": self.allocation})

    @property
    def nominal_bits(self) -> float:
        """The budget."""
        return self.bits

    @property
    def is_unbiased(self) -> bool:
        """Whether the scale is the unbiased one and there are rounds enough to stand in for a uniform rotation."""
        return self.scale == "unbiased" and self.rounds >= 2

    def expected_vnmse(self, dim: int) -> float | None:
        """Return 1/c − 1, or 1 − c with ``scale="mmse"``.

        None below 4,096 coordinates, where the law is rough, and with ``allocation="adaptive"``, where it depends on
        the vector.
        """
        if dim < 4096 or self.allocation == "adaptive":
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

    def _encode_shaped(self, x: Tensor, *, seed: int, shapes: Shapes | None) -> tuple[bytes, bytes]:
        if self.allocation == "adaptive" and x.numel():
            encoded = self._encode_adaptive(x, shapes if shapes is not None else [(x.numel(),)], seed=seed)
            if encoded is not None:
                return encoded
        return self._encode_finite(x, seed=seed)

    def _encode_adaptive(self, x: Tensor, shapes: Shapes, *, seed: int) -> tuple[bytes, bytes] | None:
        """Return None where one rate for all is better, or the vector too short for a table."""
        room = math.floor(self.bits * x.numel() / 8) - HEADER_BYTES - _PARAMS.size
        most = self._expected_error(x)
        for detail in DETAILS:
            layout = find_layout(x, shapes, bits=self.bits, block=self.block, detail=detail)
            draft = draft_payload(x, layout, room=room)
            if draft is not None and draft.error < most:
                body = draft.encode(Rotation(seed, self.rounds), unbiased=self.scale == "unbiased")
                if COORDINATES_PER_BYTE * len(body) < x.numel():
                    # All but nothing is zero; a reader would not believe so few bytes.
                    return None
                flags = _ADAPTIVE + (_HAS_MEANS if draft.has_means else 0)
                return _PARAMS.pack(0, self.block.bit_length() - 1, self.rounds, flags, layout.plan.raw), body
        return None

    def _expected_error(self, x: Tensor) -> float:
        """Return the expected squared error with one rate for all."""
        plan = self._plan(x.numel())
        means = block_means(x, plan)
        rate = choose_rate(plan, room=self._room(x.numel(), plan, side_bytes=len(pack_means(means))))
        return sum(energies_left(x, plan, means)) * (1 / captured_share(at_rate(plan, rate), DISTORTION) - 1)

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
        check_params(header, _PARAMS.size, what=cls.name)
        rate, log_block, rounds, flags, raw = _PARAMS.unpack(header.params)
        has_means, adaptive = bool(flags & _HAS_MEANS), bool(flags & _ADAPTIVE)
        possible = rate <= MAX_RATE and 8 <= log_block <= 18 and 1 <= rounds <= MAX_ROUNDS and flags <= 3
        if not possible or (not adaptive and raw not in (0, header.dim % MIN_BLOCK)) or (adaptive and rate):
            raise InvalidParams(
                f"{cls.name} parameters {header.params.hex()} say rate {rate}/65536, block 2^{log_block}, rounds "
                f"{rounds}, flags {flags}, raw {raw}; allowed: rate to 8, block 2^8…2^18, rounds 1…{MAX_ROUNDS}, flags "
                f"0…3, raw 0 or {header.dim % MIN_BLOCK}"
            )
        rotation, dim = Rotation(seed, rounds), header.dim
        if adaptive:
            return decode_adaptive(
                body, rotation, dim=dim, block=2**log_block, raw=raw, has_means=has_means, device=device
            )
        plan = at_rate(plan_blocks(dim, block=2**log_block, raw_tail=raw > 0), rate)
        mean_bytes = check_blocks(body, plan, has_means=has_means)
        return decode_blocks(body, plan, rotation, mean_bytes=mean_bytes, dim=dim, device=device)


def default_block(bits: float) -> int:
    """Return the block at which a float32 scale is at most 1 % of the block's bits, and not needlessly large."""
    block = 16384
    while block < MAX_BLOCK and bits * block < 3200:
        block *= 2
    return block
