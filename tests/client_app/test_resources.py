from __future__ import annotations

import pytest
import torch

from client_app.resources import choose_device
from fedcomp.errors import ConfigError


@pytest.mark.parametrize(
    ("gpus", "wanted", "found"),
    [
        (0, "auto", "cpu"),
        (0, "cpu", "cpu"),
        (1, "auto", "cuda"),
        (1, "cpu", "cpu"),
        (1, "cuda", "cuda"),
        (2, "cuda:1", "cuda:1"),
    ],
)
def test_auto_prefers_a_gpu(monkeypatch: pytest.MonkeyPatch, gpus: int, wanted: str, found: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    assert choose_device(wanted) == torch.device(found)


@pytest.mark.parametrize("wanted", ["cuda", "cuda:2", "gpu", "mps", ""])
def test_a_device_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch, wanted: str) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2 if wanted == "cuda:2" else 0)
    there = "auto, cpu, cuda:0, cuda:1" if wanted == "cuda:2" else "auto, cpu"
    with pytest.raises(ConfigError, match=f"device is '{wanted}'.*allowed: {there}"):
        choose_device(wanted)


@pytest.mark.parametrize(
    ("gpus", "wanted", "found"),
    [
        (3, "auto", ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]),
        (3, "cuda", ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]),
        (3, "cuda:1", ["cuda:1"] * 4),
        (3, "cpu", ["cpu"] * 4),
        (1, "auto", ["cuda"] * 4),
        (0, "auto", ["cpu"] * 4),
    ],
)
def test_clients_are_spread_over_the_gpus(
    monkeypatch: pytest.MonkeyPatch, gpus: int, wanted: str, found: list[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    chosen = [choose_device(wanted, partition_id=partition) for partition in range(4)]
    assert chosen == [torch.device(name) for name in found]
