from __future__ import annotations

import json

import pytest
from safetensors.torch import load, save

from fedcomp.errors import CheckpointError
from tests.support.downlinks import broadcaster, published, same_state, walk


@pytest.mark.parametrize("spec", ["eden:bits=2", "identity", "sign"])
@pytest.mark.parametrize("count", [0, 1, 4, 20])
def test_after_a_restart_the_same_bytes_come_out(spec: str, count: int) -> None:
    models = walk(3000, count + 3)
    steady = published(spec, models[:count]) if count else broadcaster(spec, 3000)
    tensors, mapping = steady.state()
    resumed = broadcaster(spec, 3000)
    resumed.restore(load(save(tensors)), json.loads(json.dumps(mapping)))
    for version in range(count, count + 4):
        assert resumed.version == steady.version
        if steady.version is not None:
            for held in (None, *range(version + 1)):
                assert resumed.parts_for(held) == steady.parts_for(held)
        if version < count + 3:
            for server in (steady, resumed):
                server.publish(models[version], version=version, seed=2**64 - 1 - version)


def test_going_back_to_an_earlier_state_forgets_the_later_ones() -> None:
    models = walk(300, 3)
    early = published("identity", models[:2])
    late = published("identity", models)
    late.parts_for(None)
    late.restore(*early.state())
    assert late.version == 1
    assert late.parts_for(2) == early.parts_for(None)


def test_a_state_shares_no_memory_with_the_broadcaster() -> None:
    models = walk(300, 3)
    server = published("eden:bits=2", models)
    for restored in (False, True):
        tensors, mapping = server.state()
        if restored:
            server.restore(tensors, mapping)
        for tensor in tensors.values():
            tensor.zero_()
        assert same_state(server, published("eden:bits=2", models))


@pytest.mark.parametrize(
    "fault", ["no copy", "no part", "no seed", "order", "gap", "end", "dtype", "shape", "parts alone"]
)
def test_a_state_that_does_not_fit_is_refused(fault: str) -> None:
    models = walk(300, 3)
    server = published("eden:bits=2", models)
    tensors, mapping = server.state()
    if fault == "no copy":
        del tensors["copy"]
    elif fault == "no part":
        del tensors["part-1"]
    elif fault == "no seed":
        del mapping["parts"][0]["seed"]
    elif fault == "order":
        mapping["parts"].reverse()
    elif fault == "gap":
        del mapping["parts"][1]
    elif fault == "end":
        mapping["version"] = 5
    elif fault == "dtype":
        tensors["copy"] = tensors["copy"].double()
    elif fault == "shape":
        tensors["copy"] = tensors["copy"].view(30, 10)
    else:
        mapping["version"] = None
    with pytest.raises(CheckpointError, match="use an earlier checkpoint"):
        server.restore(tensors, mapping)
    assert same_state(server, published("eden:bits=2", models))
