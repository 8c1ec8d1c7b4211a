from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from fedcomp.bench.distributions import DISTRIBUTIONS, SavedUpdate, draw, load_update, square_shapes
from fedcomp.bench.dme import measure, shannon_vnmse
from fedcomp.bench.plots import family
from fedcomp.commands.main import app
from fedcomp.errors import ConfigError


def test_errors_are_those_of_the_theory() -> None:
    # One squared error of 4,096 coordinates deviates by 2.2 %: the mean of 30 by 0.4 %, the mean of 3 by 1.3 %.
    result = measure("eden:bits=1", distribution="normal", dim=4096, clients=10, repeats=3, seed=1)
    assert result.vnmse == pytest.approx(0.571, rel=0.02)
    assert result.nmse == pytest.approx(0.0571, rel=0.06)
    assert result.bits_per_coordinate == pytest.approx(1.0859, abs=1e-4)  # 44 bytes of header and scale
    assert measure("identity", distribution="normal", dim=100, clients=2, repeats=1, seed=1).nmse < 1e-12


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_vectors_repeat(name: str) -> None:
    assert torch.equal(draw(name, 500, seed=3), draw(name, 500, seed=3))
    assert not torch.equal(draw(name, 500, seed=3), draw(name, 500, seed=4))
    assert draw(name, 2, seed=1).shape == (2,)


def test_distributions_are_what_they_are_called() -> None:
    assert float(draw("shifted", 10_000, seed=1).mean()) == pytest.approx(1, abs=0.01)
    assert float(draw("lognormal", 10_000, seed=1).log().std()) == pytest.approx(1, abs=0.05)
    assert sorted(draw("sparse", 1000, seed=1).tolist())[-4:] == [0, 1, 1, 3]
    with pytest.raises(ConfigError, match="dist is 'cauchy'; allowed: normal, shifted, lognormal, sparse"):
        draw("cauchy", 3, seed=1)


def test_the_bound_is_shannons() -> None:
    assert [round(shannon_vnmse(bits), 4) for bits in (0.5, 1, 2, 3)] == [1.0, 0.3333, 0.0667, 0.0159]


def test_the_command_prints_writes_and_draws(tmp_path: Path) -> None:
    words = ["bench", "dme", "--dim", "512", "--dist", "normal", "--clients", "2", "--repeats", "1"]
    words += ["--scheme", "eden:bits=2", "--scheme", "hadamard:bits=2"]
    files = ["--csv", str(tmp_path / "out.csv"), "--plot", str(tmp_path / "out.png")]
    shown = CliRunner().invoke(app, [*words, *files], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "eden:bits=2" in shown.output
    assert "repeat with: fedcomp" in shown.output
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    found = json.loads(CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False).output)
    assert [row["spec"] for row in rows] == [item["spec"] for item in found] == ["eden:bits=2", "hadamard:bits=2"]
    assert all(math.isclose(float(row["vnmse"]), item["vnmse"]) for row, item in zip(rows, found, strict=True))


def test_a_line_of_the_picture_is_one_scheme_at_many_rates() -> None:
    assert family("eden:bits=2") == family("eden:bits=0.5") == "eden"
    assert family("qsgd:bits=3,bucket=128") == "qsgd:bucket=128"
    assert family("qsgd:levels=3,bucket=128,coding=entropy") == "qsgd:bucket=128,coding=entropy"


def test_a_saved_update_is_a_vector(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2, 3), "n": torch.tensor([1, 2]), "b": torch.zeros(4)}, tmp_path / "update.safetensors")
    update = load_update(tmp_path / "update.safetensors")
    assert update.vector.tolist() == [1.0] * 6 + [0.0] * 4
    assert update.shapes == [(2, 3), (4,)]
    for spec in ("identity", "powersgd:rank=1"):
        result = measure(spec, distribution="", dim=0, clients=2, repeats=1, seed=1, update=update)
        assert (result.distribution, result.dim) == ("update", 10)
        assert result.vnmse == pytest.approx(0, abs=1e-12)


def test_a_cohort_is_measured_as_one() -> None:
    # Equal vectors are like a saved update that all clients hold: correlated errors cancel, independent ones average.
    update = SavedUpdate(torch.randn(4096, generator=torch.Generator().manual_seed(1)), [(64, 64)])
    errors = {
        spec: measure(spec, distribution="", dim=0, clients=8, repeats=4, seed=1, update=update)
        for spec in ("correlated:bits=2", "hadamard:bits=2")
    }
    assert errors["correlated:bits=2"].vnmse == pytest.approx(errors["hadamard:bits=2"].vnmse, rel=0.1)
    assert errors["correlated:bits=2"].nmse < 0.25 * errors["hadamard:bits=2"].nmse


@pytest.mark.parametrize("dim", [0, 1, 2, 3, 99, 100, 101, 65_536])
def test_drawn_vectors_have_shapes(dim: int) -> None:
    assert sum(math.prod(shape) for shape in square_shapes(dim)) == dim


def test_a_file_that_is_no_update_is_refused(tmp_path: Path) -> None:
    (tmp_path / "broken").write_bytes(b"no tensors")
    for path in (tmp_path / "broken", tmp_path / "missing"):
        with pytest.raises(ConfigError, match="give a safetensors file"):
            load_update(path)
