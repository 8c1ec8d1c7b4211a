"""top-k: the coordinates of largest magnitude; biased, meant for error feedback.

Stich, Cordonnier, Jaggi, "Sparsified SGD with memory", NeurIPS 2018 (arXiv 1809.07599).
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.coding import eliasfano
from fedcomp.compressors.base import Compressor, check_body, check_params, read_floats, to_bytes
from fedcomp.config import MIN_FRACTION, Spec, fraction_option, reject_unknown
from fedcomp.errors import InvalidParams
from fedcomp.wire import Header

_PARAMS = struct.Struct("<Q")


@dataclass(frozen=True, repr=False)
class TopK(Compressor):
    """Send the ⌈fraction·dim⌉ largest coordinates as float32 and their places in Elias–Fano code.

    Guarantee: the least error among all choices of so many coordinates, at most (1 − fraction)·‖x‖²; biased, so use
    error feedback. Places cost about 2 + log2(1/fraction) bits each. Cost: one sort.

    Attributes
    ----------
    fraction
        From 2^-16 to 1.
    """

    number: ClassVar[int] = 9

    fraction: float = 0.01

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``topk:fraction=0.01``."""
        reject_unknown("topk", spec.options, ("fraction",))
        return cls(fraction_option(spec, "fraction", 0.01))

    @property
    def spec(self) -> Spec:
        """``topk`` with its fraction."""
        return Spec("topk", {"fraction": self.fraction})

    @property
    def nominal_bits(self) -> float:
        """32 bits a value and the places."""
        return 32 * self.fraction + 8 * eliasfano.encoded_bytes(math.ceil(self.fraction * 10**6), 10**6) / 10**6

    @property
    def is_unbiased(self) -> bool:
        """False."""
        return False

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        del seed
        count = min(math.ceil(self.fraction * x.numel()), x.numel())
        # A stable sort, so that of equal magnitudes the first is taken on any device.
        places = x.abs().sort(descending=True, stable=True).indices[:count].sort().values
        body = eliasfano.encode(places.cpu().numpy(), x.numel()) + to_bytes(x[places])
        return _PARAMS.pack(count), body

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map places and values to the estimate."""
        del seed
        check_params(header, _PARAMS.size, what="topk")
        (count,) = _PARAMS.unpack(header.params)
        if not MIN_FRACTION * header.dim <= count <= header.dim:
            raise InvalidParams(f"topk sends {count} of {header.dim} coordinates; reject the sender")
        length = eliasfano.encoded_bytes(count, header.dim)
        check_body(header, body, length + 4 * count, what="topk")
        places = eliasfano.decode(body[:length], count, header.dim)
        if places is None:
            raise InvalidParams(f"topk's {count} places are not increasing numbers below {header.dim}")
        out = torch.zeros(header.dim)
        out[torch.from_numpy(places)] = read_floats(body[length:], dim=header.dim)
        return out.to(device)
