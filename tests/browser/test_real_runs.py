"""Two simulations as a user starts them, watched, compared and taken away from the dashboard."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from dashboard.tokens import create_token
from tests.browser.conftest import NewPage, Shoot
from tests.support.commands import ROOT, start
from tests.support.dashboard_server import Served, serving

# Beside the other simulations: they count the machine's Flower processes.
pytestmark = pytest.mark.timeout(900)
ROUNDS = 6
SIMULATION_SECONDS = 400  # where other tests keep the cores busy; some 20 where nothing else runs


class Simulations:
    """Starts simulations of one home."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.folder = folder
        self.started: list[subprocess.Popen[str]] = []

    def start(self, name: str, compressor: str) -> None:
        words = ("--name", name, "--compressor", compressor, "--task", "own_task.digits", "--clients", "2")
        rounds, env = ("--rounds", str(ROUNDS)), {"PYTHONPATH": str(ROOT / "examples")}
        self.started.append(start("fedcomp", "simulate", *words, *rounds, home=self.home, cwd=self.folder, env=env))

    def wait(self) -> None:
        for process in self.started:
            out, err = process.communicate(timeout=SIMULATION_SECONDS)
            assert process.returncode == 0, out + err


@pytest.fixture
def simulations(tmp_path: Path) -> Iterator[Simulations]:
    made = Simulations(tmp_path)
    yield made
    for process in made.started:
        process.terminate()
        process.communicate(timeout=60)


def test_two_runs_from_the_first_start_to_the_file(
    simulations: Simulations, new_page: NewPage, shoot: Shoot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDCOMP_HOME", str(simulations.home))  # where the logs are
    database = f"sqlite:///{simulations.home / 'runs.db'}"
    with serving(database) as served:
        page = new_page(served.url)
        page.goto("/")
        expect(page.get_by_text("No runs yet")).to_be_visible()
        shoot(page, "1-empty")
        watch_a_run_appear(simulations, page, shoot)
        simulations.wait()
        compare_both(page, shoot)
        export(page, tmp_path)
        dark_and_narrow(served, page, new_page, shoot)
        page.close()  # it would miss its server
    with serving(database, require_token=True) as guarded:
        log_in(guarded, new_page(guarded.url), shoot)


def watch_a_run_appear(simulations: Simulations, page: Page, shoot: Shoot) -> None:
    page.evaluate("window.same = true")  # a reload would forget it
    simulations.start("small", "eden:bits=1")
    simulations.start("whole", "identity")
    rows, badge = page.locator('[data-part="runs"] tbody'), page.locator("#run-head .badge")
    expect(rows).to_contain_text("small", timeout=SIMULATION_SECONDS * 1000)
    expect(rows).to_contain_text("whole", timeout=SIMULATION_SECONDS * 1000)
    shoot(page, "2-compare-live")
    assert page.evaluate("window.same")
    rows.get_by_role("link", name="small").click()
    expect(badge).to_be_visible()
    page.evaluate("window.same = true")
    expect(page.locator("#rounds tr").first).to_be_visible(timeout=SIMULATION_SECONDS * 1000)
    expect(page.locator("#log")).to_contain_text("round 1:", timeout=60_000)
    shoot(page, "3-run-live")
    expect(badge).to_have_text("completed", timeout=SIMULATION_SECONDS * 1000)
    expect(page.locator("#rounds tr")).to_have_count(ROUNDS)
    expect(page.locator("#log")).to_contain_text(f"round {ROUNDS}:", timeout=60_000)
    assert page.evaluate("window.same")
    shoot(page, "4-run-over")


def compare_both(page: Page, shoot: Shoot) -> None:
    page.get_by_role("link", name="Compare").click()
    page.get_by_role("checkbox", name="Pick small").check()
    page.get_by_role("checkbox", name="Pick whole").check()
    expect(page.locator('[data-part="runs"]')).to_contain_text("2 picked")
    expect(page.locator('[data-part="diff"]')).to_contain_text("eden:bits=1")
    expect(page.locator("#curves .scatterlayer .trace").first).to_be_attached()
    shoot(page, "5-compare")
    # The frontier and a point for either run, which differ in nothing but their price.
    expect(page.locator("#pareto .scatterlayer .trace")).to_have_count(3)
    page.locator("select[name=cost]").select_option("uplink_mb")
    expect(page.locator("#pareto")).to_contain_text("uplink MB")
    shoot(page, "6-pareto")


def export(page: Page, folder: Path) -> None:
    with page.expect_download() as table:
        page.locator('[data-part="runs"] >> text=CSV').click()
    header, *rows = table.value.path().read_text().splitlines()
    assert "compressor" in header.split(",")
    assert len(rows) == 2
    assert any("eden:bits=1" in row for row in rows)
    with page.expect_download() as picture:
        page.locator('[data-png="pareto"]').click()
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")


def dark_and_narrow(served: Served, page: Page, new_page: NewPage, shoot: Shoot) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Switch between light and dark").click()
    assert page.evaluate(background) != light
    shoot(page, "7-dark")
    phone = new_page(served.url, width=390, height=844, scheme="dark")
    phone.goto(page.url.removeprefix(served.url))
    expect(phone.locator("#pareto .scatterlayer .trace")).to_have_count(3)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    shoot(phone, "8-phone")
    phone.close()


def log_in(guarded: Served, page: Page, shoot: Shoot) -> None:
    with guarded.services.store.writing() as session:
        token, _ = create_token(session, "ada", "read")
    page.goto("/")
    expect(page).to_have_url(f"{guarded.url}/login")
    shoot(page, "9-login")
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()
    expect(page.locator('[data-part="runs"]')).to_contain_text("whole")
    page.close()
