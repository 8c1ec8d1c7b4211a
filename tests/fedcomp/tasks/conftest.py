from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def fedcomp_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a FEDCOMP_HOME of its own."""
    folder = tmp_path / "home"
    monkeypatch.setenv("FEDCOMP_HOME", str(folder))
    return folder
