from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from flwr.clientapp.mod import adaptiveclipping_mod, fixedclipping_mod
from flwr.clientapp.typing import Mod
from flwr.serverapp import strategy as flower
from flwr.serverapp.strategy import FedAvg, FedMedian, Krum, Strategy

from tests.support.flower_app import (
    FLOATS,
    KINDS,
    compressed,
    flat,
    in_training,
    initial,
    is_evaluate,
    nodes,
    start,
    weighing,
)

MEANS: dict[str, Callable[[], Strategy]] = {
    "FedAvg": FedAvg,
    "FedProx": lambda: flower.FedProx(proximal_mu=0.1),
    "FedAvgM": lambda: flower.FedAvgM(server_learning_rate=0.8, server_momentum=0.5),
    "FedAdam": flower.FedAdam,
    "FedYogi": flower.FedYogi,
    "FedAdagrad": flower.FedAdagrad,
}
OTHERS: dict[str, Callable[[], Strategy]] = {
    "Krum": lambda: Krum(num_malicious_nodes=1),
    "MultiKrum": lambda: flower.MultiKrum(num_malicious_nodes=1, num_nodes_to_select=2),
    "Bulyan": lambda: flower.Bulyan(num_malicious_nodes=0),
    "FedMedian": FedMedian,
    "FedTrimmedAvg": lambda: flower.FedTrimmedAvg(beta=0.25),
}
# Flower's clipping and QFedAvg take float arrays only.
FLOATS_ONLY: dict[str, tuple[Callable[[], Strategy], tuple[Mod, ...]]] = {
    "QFedAvg": (lambda: flower.QFedAvg(client_learning_rate=0.1, train_loss_key="loss"), ()),
    "server-fixed": (lambda: flower.DifferentialPrivacyServerSideFixedClipping(FedAvg(), 0.01, 10.0, 5), ()),
    "server-adaptive": (lambda: flower.DifferentialPrivacyServerSideAdaptiveClipping(FedAvg(), 0.01, 5, 10.0), ()),
    "client-fixed": (
        lambda: flower.DifferentialPrivacyClientSideFixedClipping(FedAvg(), 0.01, 10.0, 5),
        (fixedclipping_mod,),
    ),
    "client-adaptive": (
        lambda: flower.DifferentialPrivacyClientSideAdaptiveClipping(FedAvg(), 0.01, 5, 10.0),
        (adaptiveclipping_mod,),
    ),
}
CASES = [
    *((name, make, (), tuple(KINDS), True) for name, make in MEANS.items()),
    *((name, make, (), tuple(KINDS), False) for name, make in OTHERS.items()),
    *((name, make, mods, tuple(FLOATS), False) for name, (make, mods) in FLOATS_ONLY.items()),
]


@pytest.mark.parametrize(("name", "make", "mods", "kinds", "streams"), CASES, ids=[case[0] for case in CASES])
def test_a_strategy_ends_near_where_it_ends_without_compression(
    name: str,
    make: Callable[[], Strategy],
    mods: Sequence[Mod],
    kinds: Sequence[str],
    streams: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # QFedAvg collects garbage for every reply, which takes a third of a second in a process as full as this one.
    monkeypatch.setattr("gc.collect", lambda: 0)
    plain = start(make(), nodes(5, (), mods), kinds)
    moved = np.linalg.norm(flat(plain.arrays) - flat(initial(kinds)))
    assert moved > 0.05
    for spec, bound in (("identity", 3e-4 if streams else 1e-6), ("eden:bits=8", 0.03)):
        strategy = make()
        inner = nodes(5, train_mods=mods)
        grid = compressed(inner, spec, strategy)
        found = start(strategy, grid, kinds)
        # The means' bound is that of float16 weights, which Flower itself adds up in float16.
        assert np.linalg.norm(flat(found.arrays) - flat(plain.arrays)) < bound * moved
        # Integers and bools travel as they are, also when Flower has made float64 means of them.
        for key in {"steps", "small", "mask"} & set(kinds):
            np.testing.assert_allclose(found.arrays[key].numpy(), plain.arrays[key].numpy(), rtol=1e-9)
        kinds_of = [(key, array.dtype, array.shape) for key, array in found.arrays.items()]
        assert kinds_of == [(key, array.dtype, array.shape) for key, array in plain.arrays.items()]
        assert [(item.accepted, item.rejected, item.streamed) for item in grid.rounds] == [(5, (), streams)] * 3
        for index, metrics in plain.train_metrics_clientapp.items():
            assert found.train_metrics_clientapp[index].keys() == metrics.keys()
            assert found.train_metrics_clientapp[index]["loss"] == pytest.approx(metrics["loss"])
        assert found.evaluate_metrics_clientapp.keys() == plain.evaluate_metrics_clientapp.keys() == {1, 2, 3}
        assert all(message.content.keys() == {"arrays", "config"} for message in inner.pushed if is_evaluate(message))


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("spec", ["eden:bits=1", "sign", "correlated:bits=4", "powersgd:rank=12", "randk:fraction=0.5"])
def test_any_scheme_gets_nearer_to_what_is_wanted(spec: str, stream: bool) -> None:
    strategy = FedAvg()
    grid = compressed(nodes(4), spec, strategy, stream=stream)
    target = flat(start(FedAvg(), nodes(4), FLOATS, 8).arrays)
    found = flat(start(strategy, grid, FLOATS, 8).arrays)
    assert np.linalg.norm(found - target) < 0.5 * np.linalg.norm(flat(initial(FLOATS)) - target)
    assert all(item.accepted == 4 and item.streamed is stream for item in grid.rounds)


@pytest.mark.parametrize("make", [*MEANS.values(), *OTHERS.values(), *(make for make, _ in FLOATS_ONLY.values())])
@pytest.mark.parametrize("weight", [0, float("nan")])
def test_without_a_usable_reply_the_strategy_keeps_its_arrays(make: Callable[[], Strategy], weight: float) -> None:
    strategy, inner = make(), nodes(5)
    inner.tamper |= {node: in_training(weighing(weight)) for node in inner.nodes}
    grid = compressed(inner, "eden:bits=4", strategy)
    found = start(strategy, grid, FLOATS, 1)
    assert len(found.arrays) == 0  # Flower's word for none
    assert not found.train_metrics_clientapp
    assert [(item.accepted, len(item.rejected)) for item in grid.rounds] == [(0, 5)]
    sent = [item.content.array_records["arrays"] for item in inner.pushed if is_evaluate(item)]
    assert sent == [initial(FLOATS)] * 5
