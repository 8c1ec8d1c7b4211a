"""A sealed simulation as a user starts it: keys are made, and all take part."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tests.support.commands import QUICK_TASK, record, run

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]


def test_a_sealed_simulation_needs_no_preparation(tmp_path: Path) -> None:
    home = tmp_path / "home"
    code, out, err = run(
        *("fedcomp", "simulate", "--clients", "2", "--rounds", "2", "--task", QUICK_TASK),
        *("-c", "sealing='on'", "--compressor", "eden:bits=2"),
        home=home,
        cwd=tmp_path,
        timeout=550,
    )
    assert code == 0, err + out
    found = record(home, tmp_path)
    assert found["config"]["sealing"] == "on"
    assert [(item["clients"], item["rejected"]) for item in found["rounds"]] == [(2, 0), (2, 0)]
    # Each client took sealed requests, and remembers the last one.
    taken = sorted((home / "clients" / found["id"]).glob("*/last-request"))
    assert [path.parent.name for path in taken] == ["client-0", "client-1"]
    keys = sorted((home / "sealing").rglob("*.key"))
    assert [path.parent.name for path in keys] == ["sealing", "client-0", "client-1"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}
