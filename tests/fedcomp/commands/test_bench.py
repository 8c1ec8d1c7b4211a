from __future__ import annotations

import csv
import json
from dataclasses import fields
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from fedcomp.bench.speed import SpeedResult
from fedcomp.bench.textbook import NAME
from fedcomp.commands import bench_speed
from fedcomp.commands.bench_speed import _three_digits, default_schemes
from fedcomp.commands.main import app
from fedcomp.compressors.catalogue import available_compressors
from fedcomp.errors import ConfigError

WORDS = [
    "bench",
    "speed",
    "--dim",
    "512",
    "--dim",
    "64",
    "--repeats",
    "1",
    "--scheme",
    "eden:bits=2",
    "--scheme",
    "sign",
]
ROWS = [(spec, dim) for dim in (512, 64) for spec in (NAME, "eden:bits=2", "sign")]
COLUMNS = (
    "scheme",
    "dim",
    "encode ms",
    "decode ms",
    "encode/copy",
    "decode/copy",
    "add/copy",
    "encode memory",
    "× textbook",
    "bits/coordinate",
)


def invoke(*words: str) -> str:
    result = CliRunner().invoke(app, words, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_speed_prints_a_line_a_scheme_and_dim() -> None:
    shown = invoke(*WORDS)
    for word in (*COLUMNS, "CPU threads: ", f"torch {torch.__version__}", "medians of up to 1", "repeat with: fedcomp"):
        assert word in shown
    lines = [[cell.strip() for cell in line.strip("│").split("│")] for line in shown.splitlines() if line[:1] == "│"]
    assert [(line[0], int(line[1])) for line in lines] == ROWS
    memory = COLUMNS.index("encode memory")
    for line in lines:
        assert len(line) == len(COLUMNS)
        figures = [float(cell.replace(",", "")) for cell in line[1:memory] + line[memory + 1 :]]
        assert all(figure > 0 for figure in figures)
        assert line[memory] == "–" or float(line[memory]) >= 0


def test_large_numbers_are_written_out() -> None:
    found = [_three_digits(value) for value in (0.0512, 9.996, 999.4, 999.5, 1051.2)]
    assert found == ["0.0512", "10", "999", "1,000", "1,051"]


def test_speed_writes_json_and_csv(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    path = tmp_path / "speed.csv"
    found = json.loads(invoke(*WORDS, "--threads", "2", "--device", "cpu", "--json", "--csv", str(path)))
    written = list(csv.DictReader(path.read_text().splitlines()))
    names = [field.name for field in fields(SpeedResult)]
    assert [list(item) for item in (*found, *written)] == [names] * 12
    assert [(item["spec"], item["dim"]) for item in found] == ROWS
    assert [{name: "" if value is None else str(value) for name, value in item.items()} for item in found] == written
    assert {item["threads"] for item in found} == {2}
    assert torch.get_num_threads() == threads


def test_speed_takes_every_scheme_by_default() -> None:
    assert {spec.partition(":")[0] for spec in default_schemes()} == set(available_compressors())
    shown = json.loads(invoke("bench", "speed", "--dim", "300", "--repeats", "1", "--json"))
    assert [item["spec"] for item in shown] == [NAME, *default_schemes()]


def test_by_default_only_eden_is_measured_on_the_longest_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench_speed, "DEFAULT_DIM", 64)
    monkeypatch.setattr(bench_speed, "LARGE_DIM", 128)
    shown = json.loads(invoke("bench", "speed", "--repeats", "1", "--json"))
    expected = [(spec, 64) for spec in (NAME, *default_schemes())] + [(spec, 128) for spec in (NAME, *bench_speed.EDEN)]
    assert [(item["spec"], item["dim"]) for item in shown] == expected
    given = json.loads(invoke("bench", "speed", "--repeats", "1", "--json", "--scheme", "sign"))
    assert [(item["spec"], item["dim"]) for item in given] == [(NAME, 64), ("sign", 64)]


@pytest.mark.parametrize("words", [("--device", "tpu"), ("--scheme", "nothing")])
def test_what_speed_cannot_do_is_named(words: tuple[str, str]) -> None:
    with pytest.raises(ConfigError, match=f"'{words[1]}'"):
        invoke("bench", "speed", "--dim", "8", *words)


def test_both_benchmarks_are_in_the_help() -> None:
    shown = invoke("bench", "--help")
    assert "dme" in shown
    assert "speed" in shown
