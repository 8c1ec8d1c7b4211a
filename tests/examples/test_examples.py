from __future__ import annotations

import runpy
import tomllib
from pathlib import Path

import pytest

import fedcomp
from fedcomp.run_config import RunConfig
from tests.support.runs import run_in_process, settings

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_mean_estimation_prints_what_the_theory_says(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "mean_estimation.py"), run_name="__main__")
    rows = {
        line.split()[0]: [float(cell) for cell in line.split()[1:]] for line in capsys.readouterr().out.splitlines()[1:]
    }
    for spec, bits in (("eden:bits=1", 1), ("eden:bits=2", 2), ("eden:bits=4", 4)):
        expected = fedcomp.compressor(spec).expected_vnmse(100_000)
        assert expected is not None
        assert rows[spec][0] <= 1.01 * bits
        # Ten independent errors average out; one squared error of 100,000 coordinates deviates by half a percent.
        assert rows[spec][1] == pytest.approx(expected / 10, rel=0.03)


def test_the_own_task_learns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    run, _ = run_in_process(settings(task="own_task.digits", learning_rate=0.1, num_server_rounds=8), clients=4)
    assert run.data_label == "scikit-learn's handwritten digits"
    assert run.rounds[-1].accuracy is not None
    assert run.rounds[-1].accuracy > 0.8
    assert len((EXAMPLES / "own_task" / "digits.py").read_text().splitlines()) < 60


def test_settings_files_are_right() -> None:
    for path in EXAMPLES.glob("*.toml"):
        RunConfig.from_mapping(tomllib.loads(path.read_text()))


def test_every_example_is_listed() -> None:
    readme = (EXAMPLES / "README.md").read_text()
    for path in EXAMPLES.iterdir():
        name = f"{path.name}/" if path.is_dir() else path.name
        assert name == "README.md" or name.startswith("__") or f"`{name}`" in readme
