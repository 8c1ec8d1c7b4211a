"""Client states to save and compare."""

from __future__ import annotations

import torch
from torch import Tensor

import fedcomp
from client_app.state import ClientState, ClientStore, PendingPayload


def filled(round_index: int, dim: int = 100) -> ClientState:
    generator = torch.Generator().manual_seed(round_index)
    return ClientState(
        round_index,
        torch.randn(dim, generator=generator),
        PendingPayload(fedcomp.compressor("sign").encode(torch.ones(dim), seed=2**64 - 1), 2**64 - 1),
        round_index - 1,
        torch.randn(dim, generator=generator),
    )


def bits(vector: Tensor | None) -> bytes | None:
    return None if vector is None else vector.numpy().tobytes()


def same(one: ClientState, other: ClientState) -> bool:
    def plain(state: ClientState) -> tuple[object, ...]:
        return (state.round_index, bits(state.residual), state.pending, state.version, bits(state.model))

    return plain(one) == plain(other)


def rounds(store: ClientStore) -> list[str]:
    return sorted(path.name for path in store.folder.iterdir()) if store.folder.exists() else []


def opened() -> ClientStore:
    return ClientStore.open(run="run", client="client-0")
