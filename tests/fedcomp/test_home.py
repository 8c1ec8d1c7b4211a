from __future__ import annotations

import stat
from pathlib import Path

import platformdirs
import pytest

from dashboard.store import RunStore
from fedcomp import home


def test_the_environment_may_name_another_place_for_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert home.store_url() == home.database_url()
    monkeypatch.setenv("FEDCOMP_DATABASE_URL", "postgresql://somewhere/runs")
    assert home.store_url() == home.database_url() == "postgresql://somewhere/runs"
    monkeypatch.setenv("FEDCOMP_DASHBOARD_URL", "https://dashboard.example")
    assert (home.store_url(), home.database_url()) == ("https://dashboard.example", "postgresql://somewhere/runs")


def test_the_environment_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCOMP_HOME", str(tmp_path / "a b" / "home"))
    assert home.home() == tmp_path / "a b" / "home"
    assert stat.S_IMODE(home.home().stat().st_mode) == 0o700
    assert home.database_url() == f"sqlite:///{tmp_path}/a%20b/home/runs.db"
    assert home.checkpoints_dir("r1") == tmp_path / "a b" / "home" / "checkpoints" / "r1"
    assert home.log_file("7") == tmp_path / "a b" / "home" / "logs" / "7.log"
    assert home.cache_dir("glyphs").is_dir()


@pytest.mark.parametrize("name", ["plain", "with space", "per%20cent", "what?", "a&b#c", "größe"])
def test_the_database_is_where_the_home_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("FEDCOMP_HOME", str(tmp_path / name))
    with RunStore(home.database_url()) as store:
        assert store.list_runs() == []
    assert (tmp_path / name / "runs.db").is_file()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_relative_paths_and_tildes_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDCOMP_HOME", "here")
    assert home.home() == tmp_path / "here"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FEDCOMP_HOME", "~/there")
    assert home.home() == tmp_path / "there"


def test_the_default_is_the_platforms_user_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FEDCOMP_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert home.home() == platformdirs.user_data_path("fedcomp", appauthor=False)
