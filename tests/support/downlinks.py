"""Models that wander, and broadcasters that have published them."""

from __future__ import annotations

import torch
from torch import Tensor

import fedcomp
from fedcomp.downlink import Broadcaster, ModelPart, receive

KEY = "eden:bits=8"


def walk(dim: int, count: int, *, seed: int = 1) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return list(torch.randn(count, dim, generator=generator).cumsum(dim=0).unbind())


def broadcaster(spec: str, dim: int, *, full: str = KEY) -> Broadcaster:
    return Broadcaster(fedcomp.compressor(spec), full=fedcomp.compressor(full), shapes=[(dim,)])


def published(spec: str, models: list[Tensor], *, full: str = KEY) -> Broadcaster:
    server = broadcaster(spec, models[0].numel(), full=full)
    for version, model in enumerate(models):
        server.publish(model, version=version, seed=100 + version)
    return server


def size(parts: list[ModelPart]) -> int:
    return sum(len(part.payload) for part in parts)


def join(server: Broadcaster, parts: list[ModelPart]) -> Tensor:
    return receive(parts, held_version=None, held=None, dim=server.copy.numel())


def same_state(one: Broadcaster, other: Broadcaster) -> bool:
    (tensors, mapping), (more, another) = one.state(), other.state()
    return (
        mapping == another
        and tensors.keys() == more.keys()
        and all(torch.equal(tensors[name], more[name]) for name in tensors)
    )
