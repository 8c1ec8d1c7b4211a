from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dashboard.store import RunStore
from fedcomp.commands.main import app
from fedcomp.home import database_url
from fedcomp.sweeps.report import write_report
from fedcomp.sweeps.results import collect, nmse_from_clients
from fedcomp.sweeps.spec import SweepError
from tests.support.sweeps import add_run, cells, tiny_sweep

PNG = b"\x89PNG\r\n\x1a\n"


def filled(store: RunStore) -> None:
    for cell in cells(seeds=[1, 2]):
        final = 0.5 + 0.1 * cell.seed if cell.arm.name == "plain" else 0.4
        add_run(store, cell, accuracies=[0.1, 0.2, final], bits=32.0 if cell.arm.name == "plain" else 2.0)


def test_seeds_are_averaged() -> None:
    with RunStore(database_url()) as store:
        filled(store)
        result = collect(store, "tiny", tiny_sweep(seeds=[1, 2]))
    plain, eden = result.arms
    assert (plain.arm, eden.arm, eden.family) == ("plain", "eden-2", "eden")
    assert plain.accuracy == pytest.approx(0.65)
    assert plain.accuracy_deviation == pytest.approx(0.1 / 2**0.5)
    assert (plain.bits, eden.bits) == (32.0, 2.0)
    assert plain.uplink_mb == pytest.approx(0.003)
    assert [point.accuracy for point in plain.curve()] == pytest.approx([0.1, 0.2, 0.65])
    assert [point.uplink_mb for point in plain.curve()] == pytest.approx([0.001, 0.002, 0.003])


def test_the_error_of_a_mean_follows_from_its_clients() -> None:
    cell = cells()[0]
    with RunStore(database_url()) as store:
        run_id = add_run(store, cell, accuracies=[0.1])
        (item,) = store.rounds_after(run_id)
    # Weights 1 and 3, errors of 0.4 each.
    assert nmse_from_clients(item) == pytest.approx((1 + 9) * 0.4 / 16)
    unknown = item.client_results[0].model_copy(update={"vnmse": None})
    assert nmse_from_clients(item.model_copy(update={"client_results": (unknown, item.client_results[1])})) is None


def test_the_newest_run_of_a_cell_counts_and_others_are_named() -> None:
    first, second = cells()
    with RunStore(database_url()) as store:
        add_run(store, first, accuracies=[0.1, 0.2, 0.3])
        add_run(store, first, accuracies=[0.1, 0.2, 0.9])
        add_run(store, second, accuracies=[0.1], status="failed")
        result = collect(store, "tiny")
    assert [arm.accuracy for arm in result.arms] == [0.9]
    assert result.unfinished == {second.name: "failed"}


def test_what_is_not_in_the_file_is_left_out() -> None:
    with RunStore(database_url()) as store:
        filled(store)
        result = collect(store, "tiny", tiny_sweep(seeds=[2], arms={"plain": "identity"}))
    assert [(arm.arm, len(arm.runs)) for arm in result.arms] == [("plain", 1)]
    assert result.arms[0].accuracy_deviation is None


def test_a_sweep_without_runs_names_those_that_have_some() -> None:
    with RunStore(database_url()) as store:
        filled(store)
        with pytest.raises(SweepError, match="'other' has no finished run; sweeps with runs here: tiny"):
            collect(store, "other")


def test_a_report_has_a_table_and_figures(tmp_path: Path) -> None:
    with RunStore(database_url()) as store:
        filled(store)
        result = collect(store, "tiny", tiny_sweep(seeds=[1, 2]))
    path = write_report(result, tmp_path / "out")
    text = path.read_text()
    assert "Data: clouds." in text
    assert "3 clients, 3 rounds, 1,000 coordinates." in text
    assert "| plain | `identity` | 32.000 | 0.00 | 1.0× | 0.6500 ± 0.0707 | 2 | 0.25 |" in text
    figures = sorted(path.parent.glob("*.png"))
    assert [item.stem for item in figures] == ["accuracy-bits", "accuracy-rounds", "accuracy-uplink", "nmse-bits"]
    for item in figures:
        assert item.read_bytes().startswith(PNG)
        assert f"({item.name})" in text


def test_runs_on_different_data_are_not_passed_over(tmp_path: Path) -> None:
    with RunStore(database_url()) as store:
        filled(store)
        result = collect(store, "tiny")
    run = result.arms[0].runs[0]
    object.__setattr__(run, "data_label", "rain")
    text = write_report(result, tmp_path).read_text()
    assert "**The runs were on different data:**" in text
    assert "- rain" in text


def test_the_command_writes_and_prints_it(tmp_path: Path) -> None:
    with RunStore(database_url()) as store:
        filled(store)
    done = CliRunner().invoke(app, ["report", "tiny", "--out", str(tmp_path)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "| eden-2 | `eden:bits=2` |" in done.output
    assert f"written to {tmp_path / 'report.md'}" in done.output.replace("\n", "")
