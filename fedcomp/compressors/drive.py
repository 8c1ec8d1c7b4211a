"""DRIVE: EDEN at one bit.

Vargaftik, Ben Basat, Portnoy, Mendelson, Ben-Itzhak, Mitzenmacher, "DRIVE: One-bit distributed mean estimation",
NeurIPS 2021 (arXiv 2105.08339).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from fedcomp.compressors.eden import Eden
from fedcomp.config import Spec, reject_unknown


@dataclass(frozen=True, repr=False)
class Drive(Eden):
    """Send per block one float32 scale and the signs of the rotated coordinates.

    Guarantee and cost: those of EDEN at ``bits=1``, which it is; vNMSE 0.575.
    """

    number: ClassVar[int] = 2
    name: ClassVar[str] = "drive"

    bits: float = 1.0

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``drive:block=16384,rounds=2,scale=unbiased``; every option has a default."""
        reject_unknown("drive", spec.options, ("block", "rounds", "scale"))
        eden = Eden.from_spec(Spec("drive", {**spec.options, "bits": 1}))
        return cls(1.0, eden.block, eden.rounds, eden.scale)

    @property
    def spec(self) -> Spec:
        """``drive`` with its three options."""
        return Spec("drive", {"block": self.block, "rounds": self.rounds, "scale": self.scale})
