"""EDEN: rotate, quantize with the codebook of the normal law, scale so that the estimate is unbiased.

Vargaftik, Ben Basat, Portnoy, Mendelson, Ben-Itzhak, Mitzenmacher, "EDEN: Communication-efficient and robust
distributed mean estimation for federated learning", ICML 2022 (arXiv 2108.08842), §3. Other than the published code it
rotates twice, block by block, and counts every bit that it sends.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from fedcomp.coding.bitpack import pack_bits, unpack_bits
from fedcomp.compressors.base import Compressor
from fedcomp.compressors.blocks import MIN_BLOCK, BlockPlan, Group, plan_blocks
from fedcomp.config import Spec, reject_unknown
from fedcomp.errors import ConfigError, InvalidParams, NonFinite
from fedcomp.quantizers.codebook import DISTORTION, MAX_BITS, dequantize, quantize
from fedcomp.transforms.hadamard import rotate, rotation_signs, unrotate
from fedcomp.wire import Header

MAX_BLOCK = 65536
MAX_ROUNDS = 4
SCALES = ("unbiased", "mmse")
# Blocks are worked on so many coordinates at a time: small enough for a CPU's cache, large enough to fill a GPU.
_CHUNK = {"cpu": 2**17, "cuda": 2**24}
_PARAMS = struct.Struct("<BBBx")


@dataclass(frozen=True, repr=False)
class Eden(Compressor):
    """Send per block one float32 scale and ``bits`` bits a rotated coordinate.

    Guarantee: with ``scale="unbiased"`` and two or more rounds the mean over seeds is the input, and each payload
    satisfies ⟨x̂, x⟩ = ‖x‖². vNMSE = D/(1−D) with D the Lloyd-Max distortion: 0.571, 0.133, 0.0358, 0.0096 at 1, 2, 3, 4
    bits on any vector. ``scale="mmse"`` has the smaller error D and is biased; use it with error feedback. Cost: linear
    in dim.

    Attributes
    ----------
    bits
        1 to 8.
    block
        Coordinates rotated together, a power of two from 256 to 65,536.
    rounds
        Rounds of the rotation, 1 to 4; one round is biased on sparse vectors.
    scale
        ``"unbiased"`` or ``"mmse"``.
    """

    number: ClassVar[int] = 1

    bits: int = 2
    block: int = 16384
    rounds: int = 2
    scale: str = "unbiased"

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``eden:bits=2,block=16384,rounds=2,scale=unbiased``; every option has a default."""
        options = dict(spec.options)
        reject_unknown("eden", options, {"bits": 0, "block": 0, "rounds": 0, "scale": 0})
        bits = options.get("bits", 2)
        if isinstance(bits, bool) or bits not in range(1, MAX_BITS + 1):
            raise ConfigError(f"eden: bits is {bits!r}; allowed: 1, 2, … {MAX_BITS}")
        # A float32 scale must stay well below 1 % of its block's bits; above 2 bits smaller blocks are cheap enough.
        block = options.get("block", 16384 if int(bits) <= 2 else 4096)
        if isinstance(block, bool) or block not in (2**k for k in range(8, 17)):
            raise ConfigError(f"eden: block is {block!r}; allowed: powers of two from {MIN_BLOCK} to {MAX_BLOCK}")
        rounds = options.get("rounds", 2)
        if isinstance(rounds, bool) or rounds not in range(1, MAX_ROUNDS + 1):
            raise ConfigError(f"eden: rounds is {rounds!r}; allowed: 1, 2, … {MAX_ROUNDS}")
        scale = options.get("scale", "unbiased")
        if scale not in SCALES:
            raise ConfigError(f"eden: scale is {scale!r}; allowed: {', '.join(SCALES)}")
        return cls(int(bits), int(block), int(rounds), str(scale))

    @property
    def spec(self) -> Spec:
        """``eden`` with all four options."""
        return Spec("eden", {"bits": self.bits, "block": self.block, "rounds": self.rounds, "scale": self.scale})

    @property
    def nominal_bits(self) -> float:
        """The bits of one quantized coordinate."""
        return float(self.bits)

    @property
    def is_unbiased(self) -> bool:
        """Whether the scale is the unbiased one and there are rounds enough to stand in for a uniform rotation."""
        return self.scale == "unbiased" and self.rounds >= 2

    def expected_vnmse(self, dim: int) -> float | None:
        """Return D/(1−D), or D with ``scale="mmse"``; None below 4,096 coordinates, where the normal law is rough."""
        if dim < 4096:
            return None
        distortion = DISTORTION[self.bits]
        return distortion / (1 - distortion) if self.scale == "unbiased" else distortion

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        plan = plan_blocks(x.numel(), block=self.block, bits=self.bits)
        signs = rotation_signs(seed, _largest(plan), rounds=self.rounds, device=x.device)
        scales: list[Tensor] = []
        codes: list[Tensor] = []
        for group, first, last in _chunks(plan, x.device):
            blocks = _take(x, group, first, last)
            scale, indices = self._quantize(blocks, signs)
            scales.append(scale)
            codes.append(pack_bits(indices, self.bits).reshape(-1))
        parts = [part.cpu().numpy() for part in (*scales, *codes)]
        for part in parts[: len(scales)]:
            if not np.isfinite(part).all():
                raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
        raw = x[x.numel() - plan.raw :].cpu().numpy().astype("<f4")
        body = b"".join([*(p.astype("<f4").tobytes() for p in parts[: len(scales)])])
        body += b"".join(p.tobytes() for p in parts[len(scales) :]) + raw.tobytes()
        return _PARAMS.pack(self.bits, self.block.bit_length() - 1, self.rounds), body

    def _quantize(self, blocks: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
        """Map blocks (m, n) to their scales (m,) float32 and cell indices (m, n) uint8."""
        n = blocks.shape[1]
        blocks, exponents = _to_unit_range(blocks)
        norm2 = blocks.double().square().sum(dim=1)
        rotated = rotate(blocks, signs)
        # A zero block divides by one, so its indices are some constant; its scale of zero makes it decode to zero.
        rms = torch.sqrt(torch.where(norm2 > 0, norm2, 1.0) / n)
        indices = quantize(rotated * (1 / rms).float()[:, None], self.bits)
        centroid = dequantize(indices, self.bits).double()
        inner = (centroid * rotated.double()).sum(dim=1)
        ratio = norm2 / inner if self.scale == "unbiased" else inner / centroid.square().sum(dim=1)
        scale = torch.where(norm2 > 0, ratio, 0.0)
        return (scale * _power_of_two(exponents)).float(), indices

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map scales and packed cell indices to the estimate; nothing is allocated before the lengths agree."""
        bits, block, rounds = _read_params(header)
        plan = plan_blocks(header.dim, block=block, bits=bits)
        scale_bytes, code_bytes = 4 * plan.num_blocks, plan.num_rotated * bits // 8
        if len(body) != scale_bytes + code_bytes + 4 * plan.raw:
            raise InvalidParams(
                f"eden of dim {header.dim}, {bits} bits, block {block} has "
                f"{scale_bytes + code_bytes + 4 * plan.raw} bytes of body, not {len(body)}; reject the sender"
            )
        scales, raw = _floats(body[:scale_bytes]), _floats(body[scale_bytes + code_bytes :])
        if not bool(torch.isfinite(scales).all() and torch.isfinite(raw).all()):
            raise NonFinite(f"payload of dim {header.dim} holds a scale or value that is not finite; reject the sender")
        scales = scales.to(device)
        codes = torch.from_numpy(np.frombuffer(body[scale_bytes : scale_bytes + code_bytes], dtype=np.uint8).copy())
        codes = codes.to(device)
        out = torch.empty(header.dim, dtype=torch.float32, device=device)
        signs = rotation_signs(seed, _largest(plan), rounds=rounds, device=device)
        used_scales = used_codes = 0
        for group, first, last in _chunks(plan, device):
            m = last - first
            length = m * group.size * bits // 8
            packed = codes[used_codes : used_codes + length].view(m, -1)
            centroid = dequantize(unpack_bits(packed, bits, group.size), bits)
            scale = scales[used_scales : used_scales + m, None]
            estimate = (unrotate(centroid, signs) * scale).reshape(-1)
            start = group.start + first * group.size
            stop = min(group.start + last * group.size, group.stop)
            out[start:stop] = estimate[: stop - start]
            used_scales, used_codes = used_scales + m, used_codes + length
        out[header.dim - plan.raw :] = raw.to(device)
        # Near float32's limit an estimate may exceed a value that itself is finite.
        limit = torch.finfo(torch.float32).max
        return out.clamp_(-limit, limit)


def _read_params(header: Header) -> tuple[int, int, int]:
    if len(header.params) != _PARAMS.size:
        raise InvalidParams(f"eden has {_PARAMS.size} bytes of parameters, the header holds {len(header.params)}")
    bits, log_block, rounds = _PARAMS.unpack(header.params)
    if not (1 <= bits <= MAX_BITS and 8 <= log_block <= 16 and 1 <= rounds <= MAX_ROUNDS) or header.params[3] != 0:
        raise InvalidParams(
            f"eden parameters {header.params.hex()} say bits {bits}, block 2^{log_block}, rounds {rounds}; "
            f"allowed: bits 1…{MAX_BITS}, block 2^8…2^16, rounds 1…{MAX_ROUNDS}"
        )
    return bits, 2**log_block, rounds


def _largest(plan: BlockPlan) -> int:
    return max((group.size for group in plan.groups), default=MIN_BLOCK)


def _chunks(plan: BlockPlan, device: torch.device) -> Iterator[tuple[Group, int, int]]:
    """Yield (group, first block, last block) so that a chunk fits the device's fast memory."""
    limit = _CHUNK.get(device.type, _CHUNK["cuda"])
    for group in plan.groups:
        step = max(1, limit // group.size)
        for first in range(0, group.count, step):
            yield group, first, min(first + step, group.count)


def _take(x: Tensor, group: Group, first: int, last: int) -> Tensor:
    """Return blocks ``first`` to ``last`` of the group, shape (m, size); a padded block ends in zeros."""
    start = group.start + first * group.size
    stop = min(group.start + last * group.size, group.stop)
    part = x[start:stop]
    missing = (last - first) * group.size - part.numel()
    if missing:
        part = torch.nn.functional.pad(part, (0, missing))
    return part.view(last - first, group.size)


def _to_unit_range(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return blocks / 2^e with each row's largest magnitude in [0.5, 1), and e of shape (m,), exactly.

    The power of two is applied as two factors, since 2^e of a subnormal row is itself outside float32's range.
    """
    exponents = torch.frexp(blocks.abs().amax(dim=1)).exponent
    half = torch.div(exponents, 2, rounding_mode="floor")
    first, second = _power_of_two(-half).float(), _power_of_two(half - exponents).float()
    return blocks * first[:, None] * second[:, None], exponents


def _power_of_two(exponents: Tensor) -> Tensor:
    """Return 2^e as float64, exactly; torch.ldexp and torch.pow go through float32 or may be off by a bit."""
    return ((exponents.to(torch.int64) + 1023) << 52).view(torch.float64)


def _floats(data: memoryview) -> Tensor:
    return torch.from_numpy(np.frombuffer(data, dtype="<f4").astype(np.float32))
