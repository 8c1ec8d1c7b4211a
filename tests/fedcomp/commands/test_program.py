from __future__ import annotations

from pathlib import Path

import pytest

from fedcomp.commands.program import program


@pytest.mark.parametrize(("on_path", "expected"), [(True, "fedcomp"), (False, ".venv/bin/fedcomp")])
def test_the_hint_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_path: bool, expected: str) -> None:
    script = tmp_path / ".venv" / "bin" / "fedcomp"
    script.parent.mkdir(parents=True)
    script.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(script)])
    monkeypatch.setenv("PATH", str(script.parent) if on_path else "/usr/bin")
    assert program() == expected


def test_another_program_is_told_the_plain_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/pytest"])
    assert program() == "fedcomp"
