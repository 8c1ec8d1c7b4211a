"""The example of an existing app: its diff applies, is two lines, and compresses."""

from __future__ import annotations

import logging
import re
import runpy
import tomllib
from pathlib import Path

import pytest
from flwr.app import Context, RecordDict

from tests.support.existing_app import DIFF, accuracies, copy
from tests.support.flower_app import identify
from tests.support.in_process_grid import InProcessGrid


def run(folder: Path) -> InProcessGrid:
    identify()
    apps = [runpy.run_path(str(folder / f"{name}.py"))["app"] for name in ("client_app", "server_app")]
    grid = InProcessGrid.of(apps[0], 4, {})
    apps[1](grid, Context(1, 1, {}, RecordDict(), {"num-rounds": 3, "min-nodes": 4}))
    return grid


def test_the_change_is_two_lines_and_what_they_need() -> None:
    added = [line[1:].strip() for line in DIFF.read_text().splitlines() if re.match(r"\+(?!\+\+)", line)]
    code = [line for line in added if line and not line.startswith(("from fedcomp", "dependencies"))]
    assert code == [
        "app = ClientApp(mods=[compression_mod])",
        'grid=CompressedGrid(grid, "eden:bits=1,allocation=adaptive", strategy=strategy),',
    ]


def test_the_changed_app_sends_one_bit_and_learns_as_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    whole = run(copy(tmp_path / "plain", compress=False))
    before = accuracies(capsys.readouterr().out)
    with caplog.at_level(logging.INFO, "flwr.fedcomp"):
        small = run(copy(tmp_path / "compressed", compress=True))
    after = accuracies(capsys.readouterr().out)

    lines = [line for line in caplog.messages if "updates used" in line]
    assert len(lines) == 3
    assert all(line.startswith(f"round {i}: 4 of 4 updates used") for i, line in enumerate(lines, start=1))
    bits = [float(found[0]) for line in lines if (found := re.findall(r"([\d.]+) bits per coordinate", line))]
    assert all(0.95 < item <= 1.01 for item in bits)
    assert len(before) == len(after) == len(bits) == 3
    assert after[-1] > 0.97
    assert after[-1] > before[-1] - 0.02
    # Envelopes and evaluation included.
    assert small.bytes_back < whole.bytes_back / 10


def test_flower_installs_nothing_for_it(tmp_path: Path) -> None:
    project = tomllib.loads((copy(tmp_path / "app", compress=True) / "pyproject.toml").read_text())
    needed = {re.split(r"\W", text)[0] for text in project["project"]["dependencies"]}
    overridden = {text.split()[0] for text in project["tool"]["uv"]["override-dependencies"]}
    assert needed == overridden == {"flwr", "torch", "fedcomp"}
