from __future__ import annotations

import pytest
import torch
from torch import Tensor

import fedcomp
from fedcomp.downlink import BrokenChain, MissingVersion, ModelPart, receive
from fedcomp.errors import (
    ChecksumMismatch,
    DimMismatch,
    NonFinite,
    PayloadError,
    SeedMismatch,
)
from tests.support.downlinks import published, walk


def test_a_client_may_hold_more_than_the_server_knows() -> None:
    models = walk(5000, 6)
    server = published("eden:bits=2", models)
    parts = server.parts_for(None)
    broken = [ModelPart(part.version, part.base, b"not looked at", part.seed) for part in parts]
    for held_version in range(6):
        held = published("eden:bits=2", models[: held_version + 1]).copy
        before = held.clone()
        # What leads to the version held is never decoded, a full part included.
        mixed = [*broken[: held_version + 1], *parts[held_version + 1 :]]
        got = receive(mixed, held_version=held_version, held=held, dim=5000)
        assert torch.equal(got, server.copy)
        assert torch.equal(held, before)
        assert got is not held
        got.zero_()
        assert torch.equal(held, before)
    # From differences alone, too.
    held = published("eden:bits=2", models[:4]).copy
    assert torch.equal(receive(server.parts_for(1), held_version=3, held=held, dim=5000), server.copy)


@pytest.mark.parametrize("held_version", [None, 7, 99])
def test_a_full_way_replaces_what_is_held(held_version: int | None) -> None:
    server = published("eden:bits=2", walk(300, 3))
    got = receive(server.parts_for(None), held_version=held_version, held=torch.ones(300), dim=300)
    assert torch.equal(got, server.copy)


@pytest.mark.parametrize(
    "held", [torch.ones(299), torch.ones(300, dtype=torch.float64), torch.ones(1), torch.ones(300, 1)]
)
def test_what_is_held_is_not_trusted(held: Tensor) -> None:
    server = published("eden:bits=2", walk(300, 3))
    got = receive(server.parts_for(None), held_version=1, held=held, dim=300)
    assert torch.equal(got, server.copy)
    with pytest.raises(MissingVersion, match="a difference to version 1, this client holds no model of dim 300"):
        receive(server.parts_for(1), held_version=1, held=held, dim=300)
    with pytest.raises(MissingVersion, match="nothing, as to a client that is up to date"):
        receive([], held_version=2, held=held, dim=300)


def test_a_missing_version_is_named() -> None:
    server = published("eden:bits=2", walk(300, 4))
    parts = server.parts_for(2)
    with pytest.raises(MissingVersion, match="a difference to version 2, this client holds version 1; ask for a whole"):
        receive(parts, held_version=1, held=torch.ones(300), dim=300)
    for held_version in (None, 4):
        with pytest.raises(MissingVersion, match=f"holds version {held_version}"):
            receive(parts, held_version=held_version, held=torch.ones(300), dim=300)
    with pytest.raises(MissingVersion, match="holds no model of dim 300"):
        receive(parts, held_version=2, held=None, dim=300)
    assert torch.equal(receive([], held_version=3, held=server.copy, dim=300), server.copy)


def test_parts_must_follow_each_other() -> None:
    server = published("eden:bits=2", walk(300, 4))
    key, one, two, three = server.parts_for(None)
    backwards = ModelPart(0, 3, one.payload, one.seed)
    still = ModelPart(1, 1, one.payload, one.seed)
    negative = ModelPart(-1, None, key.payload, key.seed)
    before_all = ModelPart(1, -1, one.payload, one.seed)
    no_seed = ModelPart(0, None, key.payload, 2**64)
    for parts in (
        [key, two],
        [one, key],
        [key, key],
        [one, three],
        [two, one],
        [backwards],
        [still],
        [negative],
        [before_all],
        [no_seed],
        [key, one, three],
    ):
        with pytest.raises(BrokenChain, match="model part"):
            receive(parts, held_version=1, held=torch.ones(300), dim=300)
    assert issubclass(BrokenChain, PayloadError)


def test_broken_payloads_are_told() -> None:
    server = published("eden:bits=2", walk(300, 3))
    key, one, two = server.parts_for(None)
    damaged = ModelPart(1, 0, one.payload[:-1] + bytes([one.payload[-1] ^ 1]), one.seed)
    with pytest.raises(ChecksumMismatch):
        receive([key, damaged, two], held_version=None, held=None, dim=300)
    with pytest.raises(SeedMismatch):
        receive([key, ModelPart(1, 0, one.payload, 5)], held_version=None, held=None, dim=300)
    with pytest.raises(DimMismatch):
        receive([key], held_version=None, held=None, dim=301)


def test_a_sum_that_is_not_finite_is_refused() -> None:
    payload = fedcomp.compressor("identity").encode(torch.tensor([0.0, 3e38]), seed=1)
    with pytest.raises(NonFinite, match="model version 1 has inf at coordinate 1"):
        receive([ModelPart(1, 0, payload, 1)], held_version=0, held=torch.tensor([0.0, 3e38]), dim=2)
