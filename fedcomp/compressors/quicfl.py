"""QUIC-FL: rotate, send the few outliers exactly and the rest in B bits, unbiased, with shared randomness.

Ben Basat, Vargaftik, Portnoy, Einziger, Ben-Itzhak, Mitzenmacher, "Accelerating federated learning with quick
distributed mean estimation", ICML 2024 (arXiv 2205.13341), §3. Other than the published code it rotates twice, block by
block, has levels of its own (``fedcomp.quantizers.quicfl``) and counts every bit that it sends, outliers and their
places included.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcomp.coding import eliasfano
from fedcomp.coding.bitpack import pack_bits, unpack_bits
from fedcomp.compressors.base import Compressor, check_body, check_params, read_codes, read_floats, to_bytes
from fedcomp.compressors.blocks import MIN_BLOCK, RAW_BYTES, SCALE_BYTES, BlockPlan, plan_blocks, raw_is_shorter
from fedcomp.compressors.rows import chunks, largest, put, take
from fedcomp.config import Spec, integer_option, reject_unknown
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.kernels.eden_rows import rotate_rows, unrotate_rows
from fedcomp.quantizers.quicfl import DISTORTION, MAX_BITS, OUTLIERS, dequantize, quantize, reach, shared_numbers
from fedcomp.transforms.hadamard import rotation_signs
from fedcomp.transforms.unit_range import power_of_two, to_unit_range
from fedcomp.wire import HEADER_BYTES, Header

BLOCK = 16384
ROUNDS = 2
_PARAMS = struct.Struct("<BBI")
_SMALLEST = 2.0**-149
"""The smallest positive float32."""


@dataclass(frozen=True, repr=False)
class QuicFL(Compressor):
    """Send per block its root mean square as float32, ``bits`` bits a rotated coordinate, and the outliers exactly.

    A rotated coordinate over the root mean square, z, is close to standard normal. The few with |z| > t travel as
    float32 z with their places in Elias–Fano code; the others are quantized with levels that depend on a number which
    the seed gives to encoder and decoder for each coordinate. The body holds scales, codes, places, outliers and the
    raw tail.

    Above some 50,000 coordinates no payload has more than 1.01 times the nominal bits: of too many outliers only the
    largest are sent, and the scales of the blocks with the others are raised until these are in range.

    Guarantee: unbiased over the seed, whatever the rotation: each rotated coordinate is either exact or rounded without
    bias. vNMSE 1.565, 0.2286, 0.0445, 0.0100 at 1.011, 2.022, 3.043, 4.043 bits on any vector. Cost: linear in dim.

    Attributes
    ----------
    bits
        1 to 8.
    """

    number: ClassVar[int] = 12

    bits: int = 2

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``quicfl:bits=2``."""
        reject_unknown("quicfl", spec.options, ("bits",))
        return cls(integer_option(spec, "bits", 2, low=1, high=MAX_BITS))

    @property
    def spec(self) -> Spec:
        """``quicfl`` with its bits."""
        return Spec("quicfl", {"bits": self.bits})

    @property
    def nominal_bits(self) -> float:
        """The bits of a code and the expected share of outliers times 32 bits and a place of 2 + log2(1/share) bits."""
        share = OUTLIERS[self.bits]
        return self.bits + share * (32 + 2 - math.log2(share))

    @property
    def is_unbiased(self) -> bool:
        """True."""
        return True

    def expected_vnmse(self, dim: int) -> float | None:
        """Return the quantizer's error on a normal number; None below 4,096 coordinates: there the law is rough.

        Of a tail of r coordinates that is padded to 256 only the share r/256 of the error remains, of a raw one none:
        up to 1.6 % less where all coordinates are of like size.
        """
        if dim < 4096:
            return None
        plan = self._plan(dim)
        padding = plan.num_rotated + plan.raw - dim
        return DISTORTION[self.bits] * (plan.num_rotated - 2 * padding + padding**2 / MIN_BLOCK) / dim

    def _plan(self, dim: int) -> BlockPlan:
        return plan_blocks(dim, block=BLOCK, raw_tail=raw_is_shorter(dim, self.bits))

    def _most_outliers(self, dim: int, plan: BlockPlan) -> int:
        """Return how many outliers a payload may have, some deviations more than there should be."""
        overhead = HEADER_BYTES + _PARAMS.size + SCALE_BYTES * plan.num_blocks + RAW_BYTES * plan.raw
        room = math.floor(1.01 * self.nominal_bits * dim / 8) - overhead - plan.num_rotated * self.bits // 8
        expected = OUTLIERS[self.bits] * plan.num_rotated
        count = max(0, room // 4)
        while count and _outlier_bytes(count, plan) > room:
            count -= 1
        # In short vectors header and scales alone are more than one percent; there outliers come on top.
        return count if count >= expected else math.ceil(expected + 4 * math.sqrt(expected)) + 4

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        plan = self._plan(x.numel())
        signs = rotation_signs(seed, largest(plan), rounds=ROUNDS, device=x.device)
        parts = [_normalize(take(x, *chunk), signs) for chunk in chunks(plan, x.device)]
        scales = torch.cat([scale for scale, _ in parts] or [x.new_zeros(0)])
        z = torch.cat([rows.reshape(-1) for _, rows in parts] or [x.new_zeros(0)])
        most, limit = self._most_outliers(x.numel(), plan), reach(self.bits)
        places = (z.abs() > limit).nonzero().squeeze(1)
        if len(places) > most:
            # A stable sort, so that of equal magnitudes the first is taken on any device.
            places = places[z[places].abs().sort(descending=True, stable=True).indices[:most]].sort().values
            z, scales = _bring_into_range(z, scales, places, plan, limit)
        if not bool(torch.isfinite(scales).all()):
            raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
        shared = shared_numbers(plan.num_rotated, self.bits, seed=seed, device=x.device)
        messages = quantize(z, shared, self.bits, seed=seed)
        codes = [pack_bits(rows, self.bits).cpu().numpy().tobytes() for rows in _by_group(messages, plan)]
        sent = eliasfano.encode(places.cpu().numpy(), plan.num_rotated) + to_bytes(z[places])
        body = b"".join((to_bytes(scales), *codes, sent, to_bytes(x[x.numel() - plan.raw :])))
        return _PARAMS.pack(self.bits, plan.raw, len(places)), body

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map scales, codes and outliers to the estimate; nothing is allocated before the lengths agree."""
        bits, plan, count = _read_params(header)
        codes_end = SCALE_BYTES * plan.num_blocks + plan.num_rotated * bits // 8
        outliers_end = codes_end + _outlier_bytes(count, plan)
        check_body(header, body, outliers_end + RAW_BYTES * plan.raw, what="quicfl")
        places, outliers = _read_outliers(header, body[codes_end:outliers_end], count, plan)
        scales = read_floats(body[: SCALE_BYTES * plan.num_blocks], dim=header.dim).to(device)
        codes = read_codes(body[SCALE_BYTES * plan.num_blocks : codes_end], device)
        raw = read_floats(body[outliers_end:], dim=header.dim).to(device)
        shared = shared_numbers(plan.num_rotated, bits, seed=seed, device=device)
        signs = rotation_signs(seed, largest(plan), rounds=ROUNDS, device=device)
        out = torch.empty(header.dim, dtype=torch.float32, device=device)
        used_blocks = start = 0
        for group, first, last in chunks(plan, device):
            m, stop = last - first, start + (last - first) * group.size
            packed = codes[start * bits // 8 : stop * bits // 8].view(m, -1)
            z = dequantize(unpack_bits(packed, bits, group.size), shared[start:stop].view(m, -1), bits)
            here = slice(*np.searchsorted(places, (start, stop)))
            z.view(-1)[torch.from_numpy(places[here] - start).to(device)] = outliers[here].to(device)
            put(out, unrotate_rows(z, signs) * scales[used_blocks : used_blocks + m, None], group, first, last)
            used_blocks, start = used_blocks + m, stop
        out[header.dim - plan.raw :] = raw
        # Near float32's limit an estimate may exceed a value that itself is finite.
        limit = torch.finfo(torch.float32).max
        return out.clamp_(-limit, limit)


def _normalize(blocks: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
    """Map blocks (m, n) to their root mean squares as sent, (m,), and what is rotated in units of these, (m, n)."""
    blocks, exponents = to_unit_range(blocks)
    norm2 = blocks.double().square().sum(dim=1)
    power = power_of_two(exponents)
    scales = (torch.sqrt(norm2 / blocks.shape[1]) * power).float()
    # One that is too small for float32 is sent as the smallest there is, else the block would decode to zero.
    scales = torch.where(norm2 > 0, scales.clamp(min=_SMALLEST), 0.0)
    units = torch.where(norm2 > 0, power / scales.double(), 0.0)
    return scales, rotate_rows(blocks, signs) * units.float()[:, None]


def _bring_into_range(
    z: Tensor, scales: Tensor, places: Tensor, plan: BlockPlan, limit: float
) -> tuple[Tensor, Tensor]:
    """Return z and scales with each scale so large that only the coordinates at ``places`` exceed the limit."""
    others = z.abs().index_fill(0, places, 0.0)
    highest = torch.cat([rows.amax(dim=1) for rows in _by_group(others, plan)])
    raised = torch.nextafter((scales.double() * highest.double() / limit).float(), torch.full_like(scales, torch.inf))
    raised = torch.where(highest > limit, raised, scales)
    ratios = torch.where(highest > limit, scales.double() / raised.double(), 1.0).float()
    sizes = torch.tensor([group.size for group in plan.groups for _ in range(group.count)], device=z.device)
    return z * ratios.repeat_interleave(sizes), raised


def _by_group(values: Tensor, plan: BlockPlan) -> Iterator[Tensor]:
    """Yield the rotated coordinates of each group of the plan, a row a block."""
    start = 0
    for group in plan.groups:
        stop = start + group.size * group.count
        yield values[start:stop].view(group.count, group.size)
        start = stop


def _outlier_bytes(count: int, plan: BlockPlan) -> int:
    return eliasfano.encoded_bytes(count, plan.num_rotated) + 4 * count


def _read_outliers(header: Header, data: memoryview, count: int, plan: BlockPlan) -> tuple[NDArray[np.int64], Tensor]:
    """Return the outliers' places and values once they are possible."""
    length = eliasfano.encoded_bytes(count, plan.num_rotated)
    places = eliasfano.decode(data[:length], count, plan.num_rotated)
    if places is None:
        raise InvalidParams(f"quicfl's {count} places are not increasing numbers below {plan.num_rotated}")
    values = read_floats(data[length:], dim=header.dim)
    # A block of n coordinates with mean square 1 has none above √n; larger ones might overflow when rotated back.
    bound = 1.001 * math.sqrt(largest(plan))
    if bool((values.abs() > bound).any()):
        raise InvalidParams(f"quicfl has an outlier of {float(values.abs().max())}; allowed: at most {bound:.4g}")
    return places, values


def _read_params(header: Header) -> tuple[int, BlockPlan, int]:
    check_params(header, _PARAMS.size, what="quicfl")
    bits, raw, count = _PARAMS.unpack(header.params)
    if not 1 <= bits <= MAX_BITS or raw not in (0, header.dim % MIN_BLOCK):
        raise InvalidParams(
            f"quicfl has bits {bits}, raw {raw}; allowed: bits 1…{MAX_BITS}, raw 0 or {header.dim % MIN_BLOCK}"
        )
    plan = plan_blocks(header.dim, block=BLOCK, raw_tail=raw > 0)
    if count > plan.num_rotated:
        raise InvalidParams(f"quicfl has {count} outliers among {plan.num_rotated} coordinates; reject the sender")
    return bits, plan, count
