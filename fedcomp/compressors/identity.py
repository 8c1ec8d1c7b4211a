"""identity: the vector itself, as float32; what every other scheme is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.compressors.base import Compressor, check_body, check_params, read_floats, to_bytes
from fedcomp.config import Spec, reject_unknown
from fedcomp.wire import Header


@dataclass(frozen=True, repr=False)
class Identity(Compressor):
    """Send every coordinate as little-endian float32: 32 bits per coordinate, no error.

    Guarantee: exact for float32 input. Cost: two copies.
    """

    number: ClassVar[int] = 0

    @property
    def spec(self) -> Spec:
        """``identity``; it has no options."""
        return Spec("identity")

    @property
    def nominal_bits(self) -> float:
        """32 bits per coordinate."""
        return 32.0

    @property
    def is_unbiased(self) -> bool:
        """True: it is exact."""
        return True

    def expected_vnmse(self, dim: int) -> float:
        """Return 0 for any ``dim``."""
        del dim
        return 0.0

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``identity``."""
        reject_unknown("identity", spec.options, ())
        return cls()

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        del seed
        return b"", to_bytes(x)

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map 4·dim bytes to a float32 vector."""
        del seed
        check_params(header, 0, what="identity")
        check_body(header, body, 4 * header.dim, what="identity")
        return read_floats(body, dim=header.dim).to(device)
