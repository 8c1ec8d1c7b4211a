"""fedcomp: federated learning over slow links, with compressed mean estimation.

>>> import torch, fedcomp
>>> codec = fedcomp.compressor("eden:bits=2")
>>> payload = codec.encode(torch.ones(1000), seed=7)
>>> fedcomp.decode(payload, seed=7).shape
torch.Size([1000])

Names are resolved on first use (PEP 562), so that ``fedcomp.wire``, ``fedcomp.errors`` and the catalogue of schemes
work without loading torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedcomp import config, errors, metrics, seeds, tasks, wire
    from fedcomp.aggregation import MeanEstimate, MeanEstimator
    from fedcomp.compressors.base import Compressor
    from fedcomp.compressors.catalogue import available_compressors
    from fedcomp.compressors.registry import compressor, decode
    from fedcomp.seeds import derive_seed
    from fedcomp.vectors import VectorSpec
    from fedcomp.wire import bits_per_coordinate

__version__ = "0.1.0"

__all__ = [
    "Compressor",
    "MeanEstimate",
    "MeanEstimator",
    "VectorSpec",
    "available_compressors",
    "bits_per_coordinate",
    "compressor",
    "config",
    "decode",
    "derive_seed",
    "errors",
    "metrics",
    "seeds",
    "tasks",
    "wire",
]

_HOMES = {
    "Compressor": "fedcomp.compressors.base",
    "MeanEstimate": "fedcomp.aggregation",
    "MeanEstimator": "fedcomp.aggregation",
    "VectorSpec": "fedcomp.vectors",
    "available_compressors": "fedcomp.compressors.catalogue",
    "bits_per_coordinate": "fedcomp.wire",
    "compressor": "fedcomp.compressors.registry",
    "decode": "fedcomp.compressors.registry",
    "derive_seed": "fedcomp.seeds",
}


_SUBMODULES = frozenset({"config", "errors", "metrics", "seeds", "tasks", "wire"})


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _SUBMODULES:
        return importlib.import_module(f"fedcomp.{name}")
    raise AttributeError(f"module 'fedcomp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
