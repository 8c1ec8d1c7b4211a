from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from client_app.site import Site, is_simulated
from fedcomp.errors import ConfigError

PLACE = {"partition-id": 1, "num-partitions": 3}


def test_a_site_is_named_by_its_partition_or_itself() -> None:
    assert Site.of(PLACE) == Site("client-1", 1, 3)
    full = {**PLACE, "site": "bank", "device": "cuda:1", "bits": 2, "uplink-mbps": 0.5}
    assert Site.of(full) == Site("bank", 1, 3, "cuda:1", 2.0, 0.5)


@pytest.mark.parametrize("key", ["bits", "uplink-mbps"])
@pytest.mark.parametrize("value", [0, -1, "2", True, float("nan"), float("inf")])
def test_limits_are_numbers_above_zero(key: str, value: object) -> None:
    with pytest.raises(ConfigError, match=f"node config: {key} is .*; allowed: numbers above 0"):
        Site.of({**PLACE, key: value})


@pytest.mark.parametrize("place", [{}, {"partition-id": 3, "num-partitions": 3}, {**PLACE, "partition-id": "x"}])
def test_a_site_without_a_place_is_refused(place: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="partition-id"):
        Site.of(place)


@pytest.mark.parametrize("running", [True, False])
def test_a_ray_worker_is_simulated(monkeypatch: pytest.MonkeyPatch, running: bool) -> None:
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: running))
    assert is_simulated() == running


def test_without_ray_nothing_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ray", raising=False)
    assert not is_simulated()
