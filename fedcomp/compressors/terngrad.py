"""TernGrad: each coordinate as -1, 0 or 1 times the largest magnitude.

Wen, Xu, Yan, Wu, Wang, Chen, Li, "TernGrad: Ternary gradients to reduce communication in distributed deep learning",
NeurIPS 2017 (arXiv 1705.07878), §3. Without its gradient clipping, which would bias the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.coding.trits import MAX_BYTE, pack_trits, trit_bytes, unpack_trits
from fedcomp.compressors.base import Compressor, check_body, check_params, read_codes, read_floats, to_bytes
from fedcomp.config import Spec, reject_unknown
from fedcomp.errors import InvalidParams
from fedcomp.quantizers.stochastic import round_stochastically
from fedcomp.wire import Header


@dataclass(frozen=True, repr=False)
class TernGrad(Compressor):
    """Send the largest magnitude as float32 and a trit a coordinate, five a byte.

    Guarantee: unbiased over the seed; vNMSE = max|x|·Σ|x|/‖x‖² − 1. Cost: one pass.
    """

    number: ClassVar[int] = 7

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``terngrad``."""
        reject_unknown("terngrad", spec.options, ())
        return cls()

    @property
    def spec(self) -> Spec:
        """``terngrad``; it has no options."""
        return Spec("terngrad")

    @property
    def nominal_bits(self) -> float:
        """1.6 bits: five trits a byte."""
        return 1.6

    @property
    def is_unbiased(self) -> bool:
        """True."""
        return True

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        largest = x.abs().amax() if x.numel() else x.new_zeros(())
        positions = (x.double() / torch.where(largest > 0, largest, 1.0).double()).float()
        trits = round_stochastically(positions, seed=seed).clamp_(-1, 1) + 1
        return b"", to_bytes(largest.reshape(1)) + pack_trits(trits).cpu().numpy().tobytes()

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map the largest magnitude and the trits to the estimate."""
        del seed
        check_params(header, 0, what="terngrad")
        check_body(header, body, 4 + trit_bytes(header.dim), what="terngrad")
        largest = read_floats(body[:4], dim=header.dim).to(device)
        packed = read_codes(body[4:], device)
        if bool((packed > MAX_BYTE).any()):
            raise InvalidParams(f"payload holds a byte of {int(packed.max())}, five trits are at most {MAX_BYTE}")
        return (unpack_trits(packed, header.dim).float() - 1) * largest
