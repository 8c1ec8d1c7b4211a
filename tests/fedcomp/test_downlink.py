from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import fedcomp
from fedcomp.downlink import Broadcaster, NothingPublished, receive
from fedcomp.errors import ConfigError, DimMismatch, NonFinite
from fedcomp.metrics import vnmse
from tests.support.downlinks import broadcaster, join, published, same_state, size, walk

# --- the law ----------------------------------------------------------------------------------------------------------


@given(
    spec=st.sampled_from(
        ["eden:bits=1", "eden:bits=4,scale=mmse", "topk:fraction=0.02", "sign", "bfloat16", "identity"]
    ),
    full=st.sampled_from(["identity", "eden:bits=8", "float16"]),
    dim=st.sampled_from([0, 1, 3, 40, 300, 5000]),
    gaps=st.lists(st.integers(1, 3), min_size=1, max_size=14),
    seed=st.integers(0, 2**64 - 20),
)
def test_all_ways_lead_to_the_same_bits_and_the_shortest_is_taken(
    spec: str, full: str, dim: int, gaps: list[int], seed: int
) -> None:
    server = broadcaster(spec, dim, full=full)
    codec, first = fedcomp.compressor(spec), fedcomp.compressor(full)
    exact = 32 + 4 * dim
    held: dict[int, Tensor] = {}  # what a client that stopped listening at a version holds
    sizes: dict[int, int] = {}  # of the payload that leads to a version
    key = 0  # the first version from which there are only differences
    copy = torch.zeros(dim)
    version = -1
    for index, (gap, model) in enumerate(zip(gaps, walk(dim, len(gaps)), strict=True)):
        before, version = version, version + gap
        server.publish(model, version=version, seed=seed + index)
        # The same by the definition: copy + decode(encode(model - copy)), or the model itself where that is no longer.
        payload = (codec if index else first).encode(model - copy if index else model, seed=seed + index)
        if len(payload) >= exact or spec == "identity":
            key, copy, sizes[version] = version, model, exact
        else:
            decoded = fedcomp.decode(payload, seed=seed + index)
            key = key if index else version
            copy, sizes[version] = copy + decoded if index else decoded, len(payload)
        held[version] = copy
        assert server.version == version
        assert torch.equal(server.copy, copy)
        if before >= 0 and len(payload) < exact and len(held) > 1:
            step = server.parts_for(before)
            assert [(part.version, part.base) for part in step] == [(version, before)] or step[0].base is None
    assert server.parts_for(version) == []
    for start in (None, *range(version), version + 1, version + 100):
        parts = server.parts_for(start)
        ways = [exact, sum(length for number, length in sizes.items() if number >= key)]
        if start in held and start >= key:
            ways.append(sum(length for number, length in sizes.items() if number > start))
        assert size(parts) == min(ways)
        knows = start if start in held else None
        got = receive(parts, held_version=knows, held=held.get(knows) if knows is not None else None, dim=dim)
        assert torch.equal(got, copy)


@pytest.mark.parametrize("spec", ["eden:bits=2", "eden:bits=1,quantizer=trellis", "kashin:bits=2", "quicfl:bits=2"])
def test_every_backend_decodes_the_same_model(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    models = walk(5000, 5)
    monkeypatch.setenv("FEDCOMP_KERNELS", "reference")
    server = published(spec, models)
    ways = [server.parts_for(None), server.parts_for(99)]
    copies = [join(server, parts) for parts in ways]
    monkeypatch.setenv("FEDCOMP_KERNELS", "cpu")
    copies += [join(server, parts) for parts in ways]
    assert all(torch.equal(copy, server.copy) for copy in copies)


def test_what_an_encoding_loses_is_sent_with_the_next() -> None:
    models = walk(4096, 30)
    server = broadcaster("eden:bits=1,scale=mmse", 4096, full="identity")
    codec = fedcomp.compressor("eden:bits=1,scale=mmse")
    without = models[0].clone()
    server.publish(models[0], version=0, seed=0)
    for version, (last, model) in enumerate(pairwise(models), start=1):
        server.publish(model, version=version, seed=version)
        without += fedcomp.decode(codec.encode(model - last, seed=version), seed=version)
    step = float((models[-1] - models[-2]).norm()) ** 2
    # q/(1-q) of a step's energy for q = 0.365, against the sum of 29 errors.
    assert float((server.copy - models[-1]).norm()) ** 2 == pytest.approx(0.575 * step, rel=0.15)
    assert float((without - models[-1]).norm()) ** 2 > 8 * step


def test_the_same_model_again_brings_the_copy_closer() -> None:
    (model,) = walk(4096, 1)
    server = broadcaster("eden:bits=2", 4096, full="sign")
    errors = []
    for version in range(8):
        server.publish(model, version=version, seed=version)
        errors.append(vnmse(server.copy, model))
    assert all(later < 0.2 * earlier for earlier, later in pairwise(errors))
    assert errors[-1] < 1e-6


# --- what is sent -----------------------------------------------------------------------------------------------------


def test_identity_sends_the_whole_model_and_keeps_only_the_latest() -> None:
    models = walk(100, 3)
    server = published("identity", models)
    assert torch.equal(server.copy, models[2])
    for held in (None, 0, 1, 9):
        (part,) = server.parts_for(held)
        assert (part.version, part.base, part.seed) == (2, None, 102)
        assert part.payload == fedcomp.compressor("identity").encode(models[2], seed=102)
    tensors, mapping = server.state()
    assert list(tensors) == ["copy"]
    assert mapping["parts"] == []


def test_who_joins_late_gets_the_exact_model_and_nothing_needless_is_kept() -> None:
    dim = 5000
    server = broadcaster("eden:bits=2,scale=mmse", dim)
    exact = 32 + 4 * dim
    parts_of_a_joiner = []
    for version, model in enumerate(walk(dim, 30)):
        server.publish(model, version=version, seed=version)
        parts = server.parts_for(None)
        parts_of_a_joiner.append(len(parts))
        assert size(parts) <= exact
        tensors, _ = server.state()
        assert sum(tensor.numel() for name, tensor in tensors.items() if name != "copy") < exact
    # 8 bits, then 2 more a version, until 32 are as good.
    assert parts_of_a_joiner[:11] == list(range(1, 12))
    assert set(parts_of_a_joiner[13:]) == {1}
    (part,) = server.parts_for(None)
    assert (part.version, part.base, part.seed, len(part.payload)) == (29, None, 29, exact)
    assert server.parts_for(None)[0] is part  # encoded once
    # The longest chain of differences that is shorter than the exact model.
    assert [len(server.parts_for(held)) for held in (28, 20, 15, 13)] == [1, 9, 14, 1]


@pytest.mark.parametrize(("dim", "exact"), [(1, True), (2, False)])
def test_an_encoding_as_long_as_the_model_gives_way_to_the_model(dim: int, exact: bool) -> None:
    # bfloat16 has 2 bytes of parameters and 2 a coordinate.
    models = [torch.full((dim,), 1 / 3), torch.full((dim,), 1 / 7)]
    server = published("bfloat16", models, full="identity")
    assert [part.base for part in server.parts_for(0)] == [None if exact else 0]
    assert torch.equal(server.copy, models[1]) is exact


@pytest.mark.parametrize("spec", ["eden:bits=2", "identity"])
def test_the_model_is_never_changed_and_the_copy_is_the_callers(spec: str) -> None:
    models = walk(300, 3)
    untouched = [model.clone() for model in models]
    server = published(spec, models)
    assert all(torch.equal(model, before) for model, before in zip(models, untouched, strict=True))
    copy = server.copy
    expected = copy.clone()
    copy.zero_()
    models[-1].zero_()
    assert torch.equal(server.copy, expected)
    for held in (None, 1, 99):
        parts = server.parts_for(held)
        again = list(parts)
        parts.clear()
        assert server.parts_for(held) == again
    assert torch.equal(join(server, server.parts_for(None)), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_model_of_any_float_dtype_and_stride(dtype: torch.dtype) -> None:
    server = broadcaster("eden:bits=4", 300, full="identity")
    model = torch.randn(300, 2, generator=torch.Generator().manual_seed(4)).to(dtype)[:, 1].requires_grad_()
    server.publish(model, version=0, seed=1)
    assert torch.equal(server.copy, model.detach().float())
    server.publish(model * 2, version=1, seed=2)
    assert server.copy.dtype == torch.float32
    assert not server.copy.requires_grad


def test_shapes_reach_the_compressor() -> None:
    model = torch.outer(torch.arange(30.0), torch.ones(20)).reshape(-1)
    codec = fedcomp.compressor("powersgd:rank=1")
    server = Broadcaster(codec, full=codec, shapes=[(30, 20)])
    server.publish(model, version=0, seed=1)
    server.publish(model * 2, version=1, seed=2)
    torch.testing.assert_close(server.copy, model * 2, rtol=1e-4, atol=1e-4)
    assert [part.base for part in server.parts_for(None)] == [None, 0]


REFUSED = {"correlated", "hadamard", "qsgd", "randk", "terngrad"}


@pytest.mark.parametrize("spec", [*fedcomp.available_compressors(), "eden:bits=0.5"])
def test_a_compressor_with_which_the_copy_runs_away_is_refused(spec: str) -> None:
    codec = fedcomp.compressor(spec)
    if spec in REFUSED or spec == "eden:bits=0.5":
        with pytest.raises(ConfigError, match=rf"downlink-compressor: '{spec[:4]}.*vNMSE \d.*use more bits"):
            Broadcaster(codec, full=codec, shapes=None)
    else:
        Broadcaster(codec, full=codec, shapes=None)
    # For one first version it does no harm.
    Broadcaster(fedcomp.compressor("identity"), full=codec, shapes=None)


# --- what cannot be published -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["eden:bits=2", "identity"])
def test_what_cannot_be_published_changes_nothing(spec: str) -> None:
    models = walk(300, 4)
    server = published(spec, models[:3])
    before = published(spec, models[:3])
    bad = models[3].clone()
    bad[7] = float("nan")
    with pytest.raises(NonFinite, match=r"x\[7\] is nan"):
        server.publish(bad, version=3, seed=1)
    with pytest.raises(DimMismatch, match=r"\(299,\), earlier versions \(300,\); use one Broadcaster a model"):
        server.publish(models[3][1:], version=3, seed=1)
    for version in (2, 1, -1):
        with pytest.raises(ConfigError, match=f"model version is {version}; allowed: 3 and above"):
            server.publish(models[3], version=version, seed=1)
    with pytest.raises(ValueError, match="allowed: integers in"):
        server.publish(models[3], version=3, seed=2**64)
    assert same_state(server, before)
    server.publish(models[3], version=3, seed=103)
    assert same_state(server, published(spec, models))


def test_a_first_version_can_fail_too() -> None:
    server = broadcaster("eden:bits=2", 3)
    with pytest.raises(NonFinite):
        server.publish(torch.tensor([1.0, float("inf"), 0.0]), version=0, seed=1)
    with pytest.raises(ConfigError, match="give a 1-D tensor"):
        server.publish(torch.ones(3, 1), version=0, seed=1)
    with pytest.raises(ConfigError, match="model version is -1; allowed: 0 and above"):
        server.publish(torch.ones(3), version=-1, seed=1)
    assert server.version is None
    for use in (lambda: server.copy, lambda: server.parts_for(None)):
        with pytest.raises(NothingPublished, match="call publish first"):
            use()


def test_a_copy_that_overflows_is_not_published() -> None:
    server = broadcaster("topk:fraction=1", 300, full="identity")
    top = torch.full((300,), 3.4e38)
    server.publish(top, version=0, seed=1)
    with pytest.raises(NonFinite):
        server.publish(-top, version=1, seed=2)
    assert server.version == 0
