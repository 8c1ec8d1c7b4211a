"""Correlated quantization: Hadamard + SQ whose rounding errors cancel among the clients of a cohort.

Suresh, Sun, Ro, Yu, "Correlated quantization for distributed mean estimation and optimization", ICML 2022 (arXiv
2203.04925), §3–§4.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from fedcomp.compressors.hadamard import HadamardSQ
from fedcomp.config import Spec, integer_option, reject_unknown
from fedcomp.errors import ConfigError
from fedcomp.quantizers.correlated import MAX_CLIENTS, cohort_noise


@dataclass(frozen=True, repr=False)
class Correlated(HadamardSQ):
    """Send what ``hadamard`` sends; the clients of a cohort share the seed, and their rounding noise is spread evenly.

    All clients rotate alike, so that similar vectors stay similar. Where a coordinate and its levels are the same for
    all n clients, their errors sum to that of one client, where independent ones sum to √n of it. Unlike vectors gain
    less and never lose: each client's rounding up makes no other's rounding up more likely.

    Guarantee: each payload alone is unbiased over the seed. Cost: two random words a coordinate more.

    Attributes
    ----------
    bits
        1 to 8: 2^bits levels.
    clients, rank
        Size of the cohort, up to 4,096, and this client's place in it, from 0. In a run the server sets both.
    """

    number: ClassVar[int] = 13
    name: ClassVar[str] = "correlated"
    shares_seed: ClassVar[bool] = True

    clients: int = 1
    rank: int = 0

    @classmethod
    def from_spec(cls, spec: Spec) -> Self:
        """Build from ``correlated:bits=2,clients=10,rank=3``."""
        reject_unknown("correlated", spec.options, ("bits", "clients", "rank"))
        clients = integer_option(spec, "clients", 1, low=1, high=MAX_CLIENTS)
        rank = integer_option(spec, "rank", 0, low=0, high=clients - 1)
        return cls(integer_option(spec, "bits", 2, low=1, high=8), clients, rank)

    @property
    def spec(self) -> Spec:
        """``correlated`` with all options."""
        return Spec("correlated", {"bits": self.bits, "clients": self.clients, "rank": self.rank})

    def for_member(self, rank: int, clients: int) -> Self:
        """Return the compressor of one client of a cohort; raises ConfigError above 4,096 clients."""
        if clients > MAX_CLIENTS:
            raise ConfigError(f"correlated: the cohort has {clients} clients; allowed: at most {MAX_CLIENTS} a round")
        return replace(self, clients=clients, rank=rank)

    def _round(self, positions: Tensor, *, seed: int) -> Tensor:
        noise = cohort_noise(seed, positions.numel(), clients=self.clients, rank=self.rank)
        return torch.floor(positions + torch.from_numpy(noise).to(positions.device))
