from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import fedcomp
from fedcomp import seeds
from fedcomp.kernels import philox_torch, seed_words
from fedcomp.quantizers.stochastic import round_stochastically
from fedcomp.transforms.hadamard import rotation_signs
from tests.golden.make_golden import integers, shifted

CPU = torch.device("cpu")
MAKERS = {"integers": integers, "shifted": shifted}
SPECS = ("eden:bits=1", "eden:bits=2.5", "hadamard", "qsgd", "terngrad")
CASES = json.loads((Path(__file__).parents[2] / "golden" / "payloads.json").read_text())


def refuse(*arguments: Any, **more: Any) -> None:
    raise AssertionError("the other backend was asked")


@pytest.fixture
def torch_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU treated as a CUDA device is: torch draws, and numpy is not asked for signs or noise."""
    monkeypatch.setattr(seed_words, "_DRAWN_IN_PLACE", frozenset({"cpu"}))
    monkeypatch.setattr(seeds, "rademacher_signs", refuse)
    monkeypatch.setattr(seeds, "uniforms", refuse)


def test_on_a_cpu_numpy_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(philox_torch, "words", refuse)
    monkeypatch.setattr(philox_torch, "_chunks", refuse)
    signs = rotation_signs(5, 100, rounds=2, device=CPU)
    assert signs.tolist() == [seeds.rademacher_signs(5, 100, rotation_round=index).tolist() for index in (0, 1)]
    assert seed_words.uniforms(5, 100, device=CPU).tolist() == seeds.uniforms(5, 100).tolist()


def test_on_a_cuda_device_torch_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, torch.device]] = []

    def signs(seed: int, count: int, *, rotation_round: int, device: torch.device) -> torch.Tensor:
        asked.append((f"signs {rotation_round}", device))
        return torch.ones(count)

    def noise(seed: int, count: int, *, device: torch.device) -> torch.Tensor:
        asked.append(("noise", device))
        return torch.zeros(count)

    monkeypatch.setattr(philox_torch, "rademacher_signs", signs)
    monkeypatch.setattr(philox_torch, "uniforms", noise)
    device = torch.device("cuda:1")
    assert rotation_signs(5, 100, rounds=2, device=device).shape == (2, 100)
    assert seed_words.uniforms(5, 100, device=device).shape == (100,)
    assert asked == [("signs 0", device), ("signs 1", device), ("noise", device)]


def test_torch_draws_the_same_signs_and_noise(torch_draws: None, monkeypatch: pytest.MonkeyPatch) -> None:
    signs, values = rotation_signs(2**64 - 1, 1000, rounds=3, device=CPU), torch.linspace(-9, 9, 1001).view(7, 143)
    rounded = round_stochastically(values, seed=2**64 - 1)
    monkeypatch.undo()
    assert torch.equal(signs, rotation_signs(2**64 - 1, 1000, rounds=3, device=CPU))
    assert torch.equal(rounded, round_stochastically(values, seed=2**64 - 1))


@pytest.mark.parametrize("spec", SPECS)
def test_golden_payloads_are_the_same_with_torchs_words(spec: str, torch_draws: None) -> None:
    cases = [case for case in CASES if case["spec"] == spec]
    assert cases
    for case in cases:
        x = MAKERS[case["input"]](case["dim"])
        payload = fedcomp.compressor(spec).encode(x, seed=2**63 + 5)
        assert payload.hex() == case["payload"], case["dim"]
        decoded = fedcomp.decode(payload, seed=2**63 + 5)
        assert [round(value, 6) for value in decoded.tolist()] == case["decoded"]
