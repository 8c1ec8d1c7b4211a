from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedcomp.errors import ConfigError
from server_app.secret import run_secret


@pytest.fixture(autouse=True)
def no_secret_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDCOMP_RUN_SECRET", raising=False)


def test_a_run_repeats_on_its_host_only(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    assert run_secret(1, here) == run_secret(1, here)
    assert len({run_secret(1, here), run_secret(2, here), run_secret(1, there)}) == 3


def test_the_file_is_the_owners_alone(tmp_path: Path) -> None:
    run_secret(1, tmp_path)
    assert stat.S_IMODE((tmp_path / "host-secret").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["host-secret"]


def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: run_secret(1, tmp_path), range(32)))) == 1


def test_the_environment_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCOMP_RUN_SECRET", "sixteen bytes or more")
    secret = run_secret(1, tmp_path)
    assert not list(tmp_path.iterdir())
    assert b"sixteen" not in secret
    monkeypatch.setenv("FEDCOMP_RUN_SECRET", "short")
    with pytest.raises(ConfigError, match="FEDCOMP_RUN_SECRET has 5 bytes; give at least 16"):
        run_secret(1, tmp_path)


def test_a_damaged_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "host-secret").write_bytes(b"")
    with pytest.raises(ConfigError, match="host-secret has 0 bytes"):
        run_secret(1, tmp_path)
