"""random-k: coordinates that the seed picks; their places need no bytes.

Konečný, Richtárik, "Randomized distributed mean estimation: accuracy vs. communication", Frontiers in Applied
Mathematics and Statistics 4, 2018.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.compressors.base import Compressor, check_body, check_params, read_floats, to_bytes
from fedcomp.config import MIN_FRACTION, Spec, fraction_option, reject_unknown
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.seeds import permutation
from fedcomp.wire import Header

_PARAMS = struct.Struct("<Q")


@dataclass(frozen=True, repr=False)
class RandK(Compressor):
    """Send ⌈fraction·dim⌉ coordinates as float32; decoding scales them by dim/k.

    Guarantee: unbiased over the seed; vNMSE = dim/k − 1 on any vector. Cost: one sort of dim random numbers.

    Attributes
    ----------
    fraction
        From 2^-16 to 1.
    """

    number: ClassVar[int] = 10

    fraction: float = 0.05

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``randk:fraction=0.05``."""
        reject_unknown("randk", spec.options, ("fraction",))
        return cls(fraction_option(spec, "fraction", 0.05))

    @property
    def spec(self) -> Spec:
        """``randk`` with its fraction."""
        return Spec("randk", {"fraction": self.fraction})

    @property
    def nominal_bits(self) -> float:
        """32 bits a value sent."""
        return 32 * self.fraction

    @property
    def is_unbiased(self) -> bool:
        """True."""
        return True

    def expected_vnmse(self, dim: int) -> float | None:
        """Return dim/k − 1."""
        return dim / _count(dim, self.fraction) - 1 if dim else 0.0

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        count = _count(x.numel(), self.fraction)
        if count and not bool(torch.isfinite(x.abs().amax() * (x.numel() / count))):
            raise NonFinite("the vector's magnitude is at float32's limit; scale it down before encoding")
        return _PARAMS.pack(count), to_bytes(x[_places(seed, count, x.numel()).to(x.device)])

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map values to the estimate; the places come from the seed."""
        check_params(header, _PARAMS.size, what="randk")
        (count,) = _PARAMS.unpack(header.params)
        if not MIN_FRACTION * header.dim <= count <= header.dim:
            raise InvalidParams(f"randk sends {count} of {header.dim} coordinates; reject the sender")
        check_body(header, body, 4 * count, what="randk")
        values = read_floats(body, dim=header.dim)
        out = torch.zeros(header.dim)
        if count:
            out[_places(seed, count, header.dim)] = values * (header.dim / count)
        if not bool(torch.isfinite(out).all()):
            raise NonFinite(f"payload of dim {header.dim} decodes to values that are not finite; reject the sender")
        return out.to(device)


def _count(dim: int, fraction: float) -> int:
    return min(math.ceil(fraction * dim), dim)


def _places(seed: int, count: int, dim: int) -> Tensor:
    return torch.from_numpy(permutation(seed, dim)[:count].copy())
