from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from fedcomp.home import home
from fedcomp.sweeps import data
from fedcomp.sweeps.spec import SweepError
from tests.support.sweeps import tiny_sweep

TASK = "emnist:model=1m,examples-per-client=10"


class Prepared:
    """Stands in for `fedcomp data prepare`, which has tests of its own."""

    def __init__(self, code: int = 0) -> None:
        self.calls: list[list[str]] = []
        self.code = code

    def __call__(self, command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        self.calls.append(command)
        folder = home() / "data" / command[-1]
        folder.mkdir(parents=True)
        (folder / "manifest.json").touch()
        return subprocess.CompletedProcess(command, self.code, "", "MissingData: no images")


def test_data_are_prepared_once_and_named_in_the_spec(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "emnist").mkdir()
    prepared = Prepared()
    monkeypatch.setattr(subprocess, "run", prepared)
    for _ in range(2):
        sweep = data.prepare(tiny_sweep(task=TASK), tmp_path)
        name = prepared.calls[0][-1]
        assert sweep.tasks[0].spec == f"{TASK},data={name}"
    (command,) = prepared.calls
    assert command[-7:-1] == ["data", "prepare", "emnist", "--from", str(tmp_path / "emnist"), "--name"]
    # Another folder holds other data.
    (tmp_path / "other" / "emnist").mkdir(parents=True)
    data.prepare(tiny_sweep(task=TASK), tmp_path / "other")
    assert prepared.calls[1][-1] != name


def test_what_cannot_be_prepared_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(SweepError, match=r"task TinyTask is .*; there are data for emnist, shakespeare only"):
        data.prepare(tiny_sweep(), tmp_path)
    with pytest.raises(SweepError, match="emnist is missing; put the data of task emnist there"):
        data.prepare(tiny_sweep(task=TASK), tmp_path)
    (tmp_path / "emnist").mkdir()
    monkeypatch.setattr(subprocess, "run", Prepared(code=1))
    with pytest.raises(SweepError, match="could not be prepared: MissingData: no images"):
        data.prepare(tiny_sweep(task=TASK), tmp_path)
