"""float16 and bfloat16: half the bytes, stochastically rounded.

A power of two for the whole payload brings the largest magnitude to the top of the format's range, so that updates of
1e-8, which float16 alone would flush to zero, survive.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedcomp.compressors.base import Compressor, check_body, check_params
from fedcomp.config import Spec, reject_unknown
from fedcomp.errors import InvalidParams, NonFinite
from fedcomp.seeds import Stream, words
from fedcomp.wire import Header

_PARAMS = struct.Struct("<h")
_MAX_EXPONENT = 160


@dataclass(frozen=True, repr=False)
class _Half(Compressor):
    name: ClassVar[str]

    @property
    def spec(self) -> Spec:
        """The name; there are no options."""
        return Spec(self.name)

    @property
    def nominal_bits(self) -> float:
        """16 bits per coordinate."""
        return 16.0

    @property
    def is_unbiased(self) -> bool:
        """True: rounding is stochastic."""
        return True

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from the name alone."""
        reject_unknown(cls.name, spec.options, ())
        return cls()

    @staticmethod
    @abstractmethod
    def _to_bits(values: NDArray[np.float32], noise: NDArray[np.uint32]) -> NDArray[np.uint16]:
        """Round float32 values in (-1, 1) to the format's bits."""

    @staticmethod
    @abstractmethod
    def _from_bits(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
        """Undo ``_to_bits``."""

    def _encode_finite(self, x: Tensor, *, seed: int) -> tuple[bytes, bytes]:
        values = x.cpu().numpy()
        exponent = int(np.frexp(np.abs(values).max(initial=0))[1])
        scaled = np.ldexp(values, -exponent).astype(np.float32)
        bits = self._to_bits(scaled, words(seed, Stream.ROUNDING, len(values)))
        return _PARAMS.pack(exponent), bits.astype("<u2").tobytes()

    @classmethod
    def decode_body(cls, header: Header, body: memoryview, *, seed: int, device: torch.device) -> Tensor:
        """Map 2·dim bytes to a float32 vector."""
        del seed
        check_params(header, _PARAMS.size, what=cls.name)
        (exponent,) = _PARAMS.unpack(header.params)
        if abs(exponent) > _MAX_EXPONENT:
            raise InvalidParams(f"{cls.name} has exponent {exponent}; allowed: at most {_MAX_EXPONENT} in magnitude")
        check_body(header, body, 2 * header.dim, what=cls.name)
        values = cls._from_bits(np.frombuffer(body, dtype="<u2").astype(np.uint16))
        if not np.isfinite(values).all():
            index = int((~np.isfinite(values)).argmax())
            raise NonFinite(f"payload decodes to {values[index]} at coordinate {index}; reject the sender")
        # At float32's limit a magnitude may have been rounded up beyond it.
        limit = np.finfo(np.float32).max
        scaled = np.clip(np.ldexp(values.astype(np.float64), exponent), -limit, limit)
        return torch.from_numpy(scaled.astype(np.float32)).to(device)


@dataclass(frozen=True, repr=False)
class BFloat16(_Half):
    """Send every coordinate as bfloat16 (8 bits of mantissa), rounded stochastically.

    Guarantee: unbiased over the seed; each coordinate's relative error is below 2^-7. Cost: one pass.
    """

    number: ClassVar[int] = 5
    name: ClassVar[str] = "bfloat16"

    @staticmethod
    def _to_bits(values: NDArray[np.float32], noise: NDArray[np.uint32]) -> NDArray[np.uint16]:
        # Adding 16 random bits below the cut carries into the kept bits with just the right probability.
        return ((values.view(np.uint32) + (noise >> np.uint32(16))) >> np.uint32(16)).astype(np.uint16)

    @staticmethod
    def _from_bits(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


@dataclass(frozen=True, repr=False)
class Float16(_Half):
    """Send every coordinate as float16 (11 bits of mantissa), rounded stochastically.

    Guarantee: unbiased over the seed; each coordinate's error is below 2^-10 of it, or 2^-39 of the largest. Cost: one
    pass.
    """

    number: ClassVar[int] = 4
    name: ClassVar[str] = "float16"

    @staticmethod
    def _to_bits(values: NDArray[np.float32], noise: NDArray[np.uint32]) -> NDArray[np.uint16]:
        wide = values * np.float32(2**15)
        # As for bfloat16, with 13 bits cut off; below 2^-14 float16 has a fixed step of 2^-24 instead.
        normal = ((wide.view(np.uint32) + (noise >> np.uint32(19))) & np.uint32(0xFFFFE000)).view(np.float32)
        fine = np.floor(np.abs(wide) * np.float64(2**24) + noise * np.float64(2**-32)) * np.float64(2**-24)
        rounded = np.where(np.abs(wide) < 2**-14, np.copysign(fine, wide), normal)
        return rounded.astype(np.float16).view(np.uint16)

    @staticmethod
    def _from_bits(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
        # A signalling NaN, which only a hostile sender writes, is refused later; here it would be a warning.
        with np.errstate(invalid="ignore"):
            return bits.view(np.float16).astype(np.float32) * np.float32(2**-15)
