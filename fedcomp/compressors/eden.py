"""EDEN: rotate, quantize with the codebook of the normal law, scale so that the estimate is unbiased.

Vargaftik, Ben Basat, Portnoy, Mendelson, Ben-Itzhak, Mitzenmacher, "EDEN: Communication-efficient and robust
distributed mean estimation for federated learning", ICML 2022 (arXiv 2108.08842), §3. Other than the published code it
rotates twice, block by block, and counts every bit that it sends.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.compressors.base import COORDINATES_PER_BYTE, Compressor, Shapes
from fedcomp.compressors.blocks import (
    MIN_BLOCK,
    RAW_BYTES,
    SCALE_BYTES,
    BlockPlan,
    at_rate,
    plan_blocks,
    raw_is_shorter,
)
from fedcomp.compressors.eden_adaptive import (
    DETAILS,
    Draft,
    decode_adaptive,
    draft_payload,
    find_layout,
    tensor_energies,
)
from fedcomp.compressors.eden_blocks import Rotation, block_means, energies_left
from fedcomp.compressors.eden_body import accumulate_body, decode_body, encode_body
from fedcomp.compressors.eden_codes import Code
from fedcomp.compressors.eden_fit import Encoding, aimed_at, encode_to_fit
from fedcomp.compressors.eden_params import MAX_ROUNDS, PARAM_BYTES, EdenParams
from fedcomp.compressors.means import pack_means
from fedcomp.compressors.rates import MAX_RATE
from fedcomp.config import Spec, choice_option, integer_option, reject_unknown
from fedcomp.errors import ConfigError
from fedcomp.quantizers.codebook import MAX_BITS
from fedcomp.quantizers.trellis import STATES
from fedcomp.wire import HEADER_BYTES, Header

MAX_BLOCK = 2**18
SCALES = ("unbiased", "mmse")
ALLOCATIONS = ("uniform", "adaptive")
QUANTIZERS = ("lloyd", "trellis")
CODINGS = ("packed", "entropy")
DEFAULT_STATES = 8
_WORTHWHILE = 0.99
"""Pools cost time on both sides: they must take away at least a hundredth of the error."""

_LEAST_CODED_BYTES = 512
_OPTIONS = ("bits", "block", "rounds", "scale", "allocation", "quantizer", "states", "coding")


@dataclass(frozen=True, repr=False)
class Eden(Compressor):
    """Send per block one float32 scale, ``bits`` bits a rotated coordinate, and its mean where that pays.

    ``bits`` is a budget for the whole payload, and any real number: at 1.5 bits half of each block's coordinates get
    two bits and half get one, at 0.1 bits a tenth get one bit and the rest none. Where header, scales and means are
    more than 1 % of it, in vectors of less than some 50,000 coordinates or at low rates, they come on top; with entropy
    coding only where they are more than half of it.

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
    quantizer
        ``"lloyd"``: each coordinate by itself. ``"trellis"``: along a trellis, 23 % less error at one bit and 35 % at
        four; encoding takes some 15 times as long.
    states
        Of the trellis, a power of two from 4 to 256; the search takes time in proportion. Unless given 8, or 32 with
        entropy coding below 0.45 bits. Without a trellis 0.
    coding
        ``"packed"``: whole bits. ``"entropy"``: indices take their entropy; with the trellis within half a
        decibel of the rate-distortion bound. The payload is then at most the budget, and mostly within 1 % of it.
    """

    number: ClassVar[int] = 1
    name: ClassVar[str] = "eden"

    bits: float = 2.0
    block: int = 16384
    rounds: int = 2
    scale: str = "unbiased"
    allocation: str = "uniform"
    quantizer: str = "lloyd"
    states: int = 0
    coding: str = "packed"

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``eden:bits=2,block=16384,rounds=2,scale=unbiased``; every option has a default."""
        options = dict(spec.options)
        reject_unknown("eden", options, _OPTIONS)
        bits = options.get("bits", 2)
        if isinstance(bits, bool | str) or not 0 < bits <= MAX_BITS:
            raise ConfigError(f"eden: bits is {bits!r}; allowed: any number above 0, at most {MAX_BITS}")
        quantizer, coding = choice_option(spec, "quantizer", QUANTIZERS), choice_option(spec, "coding", CODINGS)
        entropy = coding == "entropy"
        block = options.get("block", default_block(bits, entropy=entropy))
        if isinstance(block, bool) or block not in (2**k for k in range(8, MAX_BLOCK.bit_length())):
            raise ConfigError(f"eden: block is {block!r}; allowed: powers of two from {MIN_BLOCK} to {MAX_BLOCK}")
        rounds = integer_option(spec, "rounds", 2, low=1, high=MAX_ROUNDS)
        scale, allocation = choice_option(spec, "scale", SCALES), choice_option(spec, "allocation", ALLOCATIONS)
        states = options.get("states", default_states(bits, entropy=entropy) if quantizer == "trellis" else 0)
        allowed = STATES if quantizer == "trellis" else (0,)
        if isinstance(states, bool) or states not in allowed:
            hint = "" if quantizer == "trellis" else "; only a trellis has states: add quantizer=trellis"
            raise ConfigError(
                f"eden: states is {states!r}; allowed with quantizer={quantizer}: {', '.join(map(str, allowed))}{hint}"
            )
        return cls(float(bits), int(block), rounds, scale, allocation, quantizer, int(states), coding)

    @property
    def spec(self) -> Spec:
        """``eden`` with all its options."""
        bits = int(self.bits) if self.bits.is_integer() else self.bits
        options = {"bits": bits, "block": self.block, "rounds": self.rounds, "scale": self.scale}
        options |= {"allocation": self.allocation, "quantizer": self.quantizer}
        states = {"states": self.states} if self.states else {}
        return Spec("eden", {**options, **states, "coding": self.coding})

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

        None below 4,096 coordinates, where the law is rough, with ``allocation="adaptive"``, where it depends on the
        vector, and for other than 8 states, which have less error.
        """
        if dim < 4096 or self.allocation == "adaptive" or self.states not in (0, DEFAULT_STATES):
            return None
        plan = self._plan(dim)
        rate = _choose_rate(self._code(dim), plan, self._room(dim, plan, side_bytes=0))
        kept = self._code(dim).kept_share(at_rate(plan, rate))
        return 1 / kept - 1 if self.scale == "unbiased" else 1 - kept

    def _code(self, dim: int) -> Code:
        # The coder's last words and whole words cost a short payload more than entropy coding saves.
        entropy = self.coding == "entropy" and self.bits * dim >= 8 * _LEAST_CODED_BYTES
        return Code(self.states, entropy)

    def _plan(self, dim: int) -> BlockPlan:
        return plan_blocks(dim, block=self.block, raw_tail=raw_is_shorter(dim, self.bits))

    def _room(self, dim: int, plan: BlockPlan, *, side_bytes: int) -> int:
        """Return the bytes that the quantized coordinates may have."""
        total = math.floor(self.bits * dim / 8)
        overhead = HEADER_BYTES + PARAM_BYTES + side_bytes + SCALE_BYTES * plan.num_blocks + RAW_BYTES * plan.raw
        # Entropy coding has to fit a length in any case, so there the budget holds for all but the shortest payloads.
        if (2 if self._code(dim).entropy else 100) * overhead <= total:
            return total - overhead
        return math.floor(self.bits * plan.num_rotated / 8)

    def _encode_shaped(self, x: Tensor, *, seed: int, shapes: Shapes | None) -> tuple[bytes, bytes]:
        if self.allocation == "adaptive" and x.numel():
            encoded = self._encode_adaptive(x, shapes if shapes is not None else [(x.numel(),)], seed=seed)
            if encoded is not None:
                return encoded
        return self._encode_finite(x, seed=seed)

    def _encode_adaptive(self, x: Tensor, shapes: Shapes, *, seed: int) -> Encoding | None:
        """Return None where one rate for all is better, or the vector too short for a table."""
        room = math.floor(self.bits * x.numel() / 8) - HEADER_BYTES - PARAM_BYTES
        code = self._code(x.numel())
        most = self._expected_error(x)
        energies = tensor_energies(x, shapes)
        for detail in DETAILS:
            layout = find_layout(energies, shapes, bits=self.bits, block=self.block, detail=detail, code=code)
            if layout.share_left > _WORTHWHILE:
                return None
            draft = draft_payload(x, layout, room=_aim(code, room), code=code)
            if draft is not None and draft.error < _WORTHWHILE * most:
                encoded = self._encode_draft(draft, room, seed=seed)
                # Perhaps all but nothing is zero; a reader would not believe so few bytes.
                return encoded if COORDINATES_PER_BYTE * len(encoded[1]) >= x.numel() else None
        return None

    def _encode_draft(self, draft: Draft, room: int, *, seed: int) -> Encoding:
        params = self._params(draft.layout.plan, draft.code, rate=0, has_means=draft.has_means, adaptive=True).pack()
        rotation, unbiased = Rotation(seed, self.rounds), self.scale == "unbiased"

        def encode(shift: int) -> Encoding:
            return params, draft.encode(rotation, shift=shift, unbiased=unbiased)

        return _fit(encode, room, draft.num_coded, draft.code)

    def _expected_error(self, x: Tensor) -> float:
        """Return the expected squared error with one rate for all."""
        plan = self._plan(x.numel())
        means = block_means(x, plan)
        code = self._code(x.numel())
        rate = _choose_rate(code, plan, self._room(x.numel(), plan, side_bytes=len(pack_means(means))))
        return sum(energies_left(x, plan, means)) * (1 / code.kept_share(at_rate(plan, rate)) - 1)

    def _encode_finite(self, x: Tensor, *, seed: int) -> Encoding:
        plan = self._plan(x.numel())
        means = block_means(x, plan)
        side_bytes = len(pack_means(means))
        room = self._room(x.numel(), plan, side_bytes=side_bytes)
        code = self._code(x.numel())
        first = _choose_rate(code, plan, room)
        rotation, unbiased = Rotation(seed, self.rounds), self.scale == "unbiased"

        def encode(shift: int) -> Encoding:
            rate = min(max(first + shift, 0), MAX_RATE)
            params = self._params(plan, code, rate=rate, has_means=side_bytes > 0, adaptive=False).pack()
            return params, encode_body(x, at_rate(plan, rate), means, rotation, code, unbiased=unbiased)

        head = side_bytes + SCALE_BYTES * plan.num_blocks + RAW_BYTES * plan.raw
        return _fit(encode, head + room, plan.num_rotated, code)

    def _params(self, plan: BlockPlan, code: Code, *, rate: int, has_means: bool, adaptive: bool) -> EdenParams:
        return EdenParams(rate, self.block, self.rounds, plan.raw, code, has_means, adaptive)

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map means, scales and indices to the estimate; nothing is allocated before the lengths agree."""
        params = EdenParams.unpack(header, name=cls.name)
        rotation = Rotation(seed, params.rounds)
        if params.adaptive:
            return decode_adaptive(body, rotation, params, dim=header.dim, device=device)
        plan = _plan_of(params, header.dim)
        return decode_body(body, plan, rotation, params.code, has_means=params.has_means, dim=header.dim, device=device)

    @classmethod
    def accumulate_body(cls, header: Header, body: memoryview, *, seed: int, into: Tensor, weight: float) -> None:
        """Add block by block; pools are scattered over the vector, so with them it is decoded first."""
        params = EdenParams.unpack(header, name=cls.name)
        if params.adaptive:
            super().accumulate_body(header, body, seed=seed, into=into, weight=weight)
            return
        plan, rotation = _plan_of(params, header.dim), Rotation(seed, params.rounds)
        accumulate_body(body, plan, rotation, params.code, has_means=params.has_means, into=into, weight=weight)


def _choose_rate(code: Code, plan: BlockPlan, room: int) -> int:
    return code.choose_rate(plan, room=_aim(code, room))


def _aim(code: Code, room: int) -> int:
    return aimed_at(room) if code.entropy else room


def _fit(encode: Callable[[int], Encoding], room: int, coordinates: int, code: Code) -> Encoding:
    return encode_to_fit(encode, room=room, coordinates=coordinates) if code.entropy else encode(0)


def _plan_of(params: EdenParams, dim: int) -> BlockPlan:
    return at_rate(plan_blocks(dim, block=params.block, raw_tail=params.raw > 0), params.rate)


def default_block(bits: float, *, entropy: bool) -> int:
    """Return the block at which a float32 scale is at most 1 % of the block's bits, and not needlessly large.

    With entropy coding, half a percent: there a bit is worth more.
    """
    block = 16384
    while block < MAX_BLOCK and bits * block < (6400 if entropy else 3200):
        block *= 2
    return block


def default_states(bits: float, *, entropy: bool) -> int:
    """Return the states of the trellis: 8, or 32 at low rates, where more of them gain most."""
    return 32 if entropy and bits < 0.45 else DEFAULT_STATES
