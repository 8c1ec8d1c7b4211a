from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedcomp.commands import main
from fedcomp.data.errors import DamagedData, MissingData
from tests.support.femnist_forms import characters, write_leaf


@pytest.fixture
def leaf(tmp_path: Path) -> Path:
    write_leaf(tmp_path / "leaf" / "train" / "0.json", characters({"a": 3, "b": 5}, seed=1))
    write_leaf(tmp_path / "leaf" / "test" / "0.json", characters({"a": 2}, seed=2))
    return tmp_path / "leaf"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main.app, ["data", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_prepare_says_what_it_found_and_how_to_use_it(leaf: Path, fedcomp_home: Path) -> None:
    output = run("prepare", "emnist", "--from", str(leaf))
    assert f"read:   leaf data from {leaf}" in output
    assert "train:  8 examples of 2 owners, each 3 to 5, 4.0 on average" in output
    assert "test:   2 examples of 1 owners, each 2 to 2" in output
    assert "label:  FEMNIST: 8 training and 2 test characters of 62 classes by 2 writers" in output
    assert f"kept:   {fedcomp_home / 'data' / 'emnist'}, 0.0 MB" in output
    assert 'simulate --task "emnist:data=emnist"' in output
    assert 'simulate --task "emnist:data=mine"' in run("prepare", "emnist", "--from", str(leaf), "--name", "mine")
    assert run("prepare", "emnist", "--from", str(leaf), "--force").splitlines() == output.splitlines()


def test_list_and_check(leaf: Path, fedcomp_home: Path) -> None:
    assert "no prepared data sets in" in run("list")
    run("prepare", "emnist", "--from", str(leaf), "--name", "mine")
    run("prepare", "emnist", "--from", str(leaf), "--name", "other")
    listed = run("list")
    assert "mine" in listed
    assert "FEMNIST: 8 training" in listed
    assert "mine is whole: FEMNIST" in run("check", "mine")
    file = fedcomp_home / "data" / "mine" / "train-inputs.npy"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DamagedData, match=r"train-inputs.npy has BLAKE2b"):
        run("check", "mine")
    file.unlink()
    listed = run("list")
    assert "cannot be used" in listed
    assert "train-inputs.npy is gone; prepare it again" in listed
    with pytest.raises(MissingData, match="no prepared data set 'nothing'"):
        run("check", "nothing")


def test_an_error_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["fedcomp", "data", "prepare", "emnist", "--from", str(tmp_path / "nothing")])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 1
    error = capsys.readouterr().err
    assert error.startswith("fedcomp: MissingData: ")
    assert error.count("\n") == 1
