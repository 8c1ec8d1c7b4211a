from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace

import pytest
import torch
from typer.testing import CliRunner

from fedcomp.bench import recipe
from fedcomp.bench.recipe import MODELS, RecipeResult
from fedcomp.commands.main import app
from fedcomp.commands.recipe import Model

RESULT = RecipeResult(
    model="emnist",
    parameters=1_206_590,
    option="plain",
    device="some CPU",
    threads=2,
    torch_version="2.13.0",
    batch_size=128,
    micro_batch_size=32,
    repeats=3,
    seconds=0.5124,
    time_ratio=1.254,
    peak_bytes=98_700_000,
    memory_ratio=0.876,
    estimated_bytes=1_234_567_890,
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """Stand-in for the measuring: what it was asked for."""
    calls: list[tuple[object, ...]] = []

    def measure(name: str, *, repeats: int, seed: int, device: torch.device) -> Iterator[RecipeResult]:
        calls.append((name, repeats, seed, str(device), torch.get_num_threads()))
        yield replace(RESULT, model=name)
        yield replace(RESULT, model=name, option="offload", peak_bytes=None, memory_ratio=None)

    monkeypatch.setattr(recipe, "measure", measure)
    return calls


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, ["recipe", "bench", "--device", "cpu", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_line_an_option_is_printed(asked: list[tuple[object, ...]]) -> None:
    shown = invoke("--model", "emnist")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if line[:1] == "│"]
    assert rows == [
        ["emnist, 1.2 M", "plain", "32 of 128", "99 MB", "0.88", "1,235 MB", "512 ms", "1.25"],
        ["emnist, 1.2 M", "offload", "32 of 128", "–", "–", "1,235 MB", "512 ms", "1.25"],
    ]
    for words in (
        "device: some CPU; CPU threads: 2; torch 2.13.0; medians of 3 steps",
        "beside the model",
        "repeat with: ",
    ):
        assert words in shown


def test_both_models_are_measured_by_default(asked: list[tuple[object, ...]]) -> None:
    invoke()
    assert [call[:4] for call in asked] == [("emnist", 3, 1, "cpu"), ("transformer", 3, 1, "cpu")]
    assert [item.value for item in Model] == list(MODELS)


def test_json_has_the_results_fields(asked: list[tuple[object, ...]]) -> None:
    before = torch.get_num_threads()
    found = json.loads(
        invoke("--model", "transformer", "--json", "--repeats", "7", "--seed", "9", "--threads", str(before + 1))
    )
    assert found[0] == asdict(replace(RESULT, model="transformer"))
    assert asked == [("transformer", 7, 9, "cpu", before + 1)]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("words", [("--model", "resnet"), ("--repeats", "0")])
def test_what_is_not_there_is_refused(words: tuple[str, ...], asked: list[tuple[object, ...]]) -> None:
    result = CliRunner().invoke(app, ["recipe", "bench", *words])
    assert result.exit_code == 2
    assert asked == []
