"""Through the dashboard as somebody who runs experiments goes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from dashboard.tokens import create_token
from tests.browser.conftest import NewPage, Shoot
from tests.support.dashboard_server import Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(f"sqlite:///{tmp_path / 'runs.db'}") as running:
        yield running


def begin(store: RunStore, compressor: str, seed: int = 1) -> str:
    start = RunStart(
        name=f"{compressor} {seed}", task="emnist", data_label="glyphs", compressor=compressor, strategy="fedavg",
        seed=seed, num_rounds=6, dim=1000, config={"learning-rate": 0.03 * seed}, environment={"device": "cpu"},
    )  # fmt: skip
    made = store.create_run(start)
    store.start_run(made)
    return made


def play(store: RunStore, run_id: str, index: int, *, bits: float, accuracy: float) -> None:
    sent = int(bits * 125)
    clients = [
        ClientResult(
            client=f"site-{each}", client_id=str(each), node_id=str(each), num_examples=10, payload_bytes=sent,
            envelope_bytes=9, bits_per_coordinate=bits, train_seconds=1.0 + each, encode_seconds=0.1,
            decode_seconds=0.1, device="cpu",
        )
        for each in range(3)
    ]  # fmt: skip
    result = RoundResult(
        round_index=index, accuracy=accuracy, loss=1 / (index + 1), asked=3, clients=3, uplink_payload_bytes=3 * sent,
        uplink_envelope_bytes=27, downlink_payload_bytes=12_000, downlink_envelope_bytes=27, bits_per_coordinate=bits,
        downlink_bits_per_coordinate=32.0, seconds=2.0,
    )  # fmt: skip
    store.record_round(run_id, result, clients)


def whole_run(store: RunStore, compressor: str, bits: float, best: float, seed: int) -> str:
    made = begin(store, compressor, seed)
    for index in range(1, 7):
        play(store, made, index, bits=bits, accuracy=best * index / (index + 1) + 0.001 * seed)
    store.finish_run(made, "completed")
    return made


def test_runs_appear_and_go_on_without_a_reload(served: Served, new_page: NewPage, shoot: Shoot) -> None:
    store, page = served.services.store, new_page(served.url)
    page.goto("/")
    expect(page.get_by_text("No runs yet")).to_be_visible()
    expect(page.get_by_text("fedcomp simulate --name demo")).to_be_visible()
    shoot(page, "empty")
    page.evaluate("window.same = true")  # a reload would forget it
    made = begin(store, "eden:bits=1")
    play(store, made, 1, bits=1.0, accuracy=0.5)
    expect(page.get_by_role("link", name="eden:bits=1 1")).to_be_visible()
    assert page.evaluate("window.same")
    page.get_by_role("link", name="eden:bits=1 1").click()
    expect(page.locator("#rounds tr")).to_have_count(1)
    page.evaluate("window.same = true")
    play(store, made, 2, bits=1.0, accuracy=0.625)
    expect(page.locator("#rounds tr")).to_have_count(2)
    expect(page.locator("#run-head")).to_contain_text("0.6250")
    expect(page.locator("#run-head .badge")).to_have_text("running")
    shoot(page, "run-live")
    store.finish_run(made, "failed", "RuntimeError: out of memory")
    expect(page.locator("#run-head .badge")).to_have_text("failed")
    expect(page.locator("#run-head")).to_contain_text("out of memory")
    assert page.evaluate("window.same")


def test_comparing_ends_in_a_picture_and_a_file(served: Served, new_page: NewPage, shoot: Shoot) -> None:
    store, page = served.services.store, new_page(served.url)
    for seed in (1, 2):
        whole_run(store, "identity", 32, 0.9, seed)
        whole_run(store, "eden:bits=1", 1, 0.89, seed)
        whole_run(store, "terngrad", 1.6, 0.6, seed)
    page.goto("/")
    expect(page.locator("h1")).to_contain_text("eden:bits=1 reaches accuracy")
    expect(page.locator("#pareto .scatterlayer .trace")).to_have_count(4)
    expect(page.locator("#curves .scatterlayer .trace").first).to_be_attached()
    shoot(page, "compare")
    # Two picked runs are compared alone, the address says so, and opens the same again.
    page.get_by_role("checkbox", name="Pick identity 1").check()
    page.get_by_role("checkbox", name="Pick terngrad 2").check()
    expect(page.locator("#pareto .scatterlayer .trace")).to_have_count(3)
    page.locator("select[name=x]").select_option("round")
    page.get_by_label("log y").check()
    expect(page.locator("#curves")).to_contain_text("round")
    expect(page.locator('[data-part="diff"]')).to_contain_text("learning-rate")
    address = page.url
    assert len(re.findall(r"run=", address)) == 2
    page.goto(address)
    expect(page.get_by_label("log y")).to_be_checked()
    expect(page.locator("#pareto .scatterlayer .trace")).to_have_count(3)
    with page.expect_download() as table:
        page.locator('[data-part="runs"] >> text=CSV').click()
    assert len(table.value.path().read_text().splitlines()) == 3
    with page.expect_download() as picture:
        page.locator('[data-png="pareto"]').click()
    assert picture.value.path().read_bytes().startswith(b"\x89PNG")
    page.get_by_role("button", name="Pick none").click()
    expect(page.locator("#pareto .scatterlayer .trace")).to_have_count(4)


def test_dark_mode_and_the_keyboard(served: Served, new_page: NewPage, shoot: Shoot) -> None:
    whole_run(served.services.store, "eden:bits=1", 1, 0.89, 1)
    page = new_page(served.url)
    page.goto("/")
    expect(page.locator("#pareto .scatterlayer .trace")).to_have_count(2)
    background = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(background)
    page.keyboard.press("d")
    assert page.evaluate(background) != light
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.locator("h1")).to_have_text("Compressors")
    expect(page.locator("#curve .scatterlayer .trace").first).to_be_attached()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    shoot(page, "compressors-dark")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()


def test_nothing_is_wider_than_a_phone(served: Served, new_page: NewPage, shoot: Shoot) -> None:
    made = whole_run(served.services.store, "eden:bits=1,quantizer=trellis,coding=entropy", 1, 0.89, 1)
    for scheme in ("light", "dark"):
        page = new_page(served.url, width=390, height=844, scheme=scheme)
        for name, path in (("compare", "/"), ("run", f"/runs/{made}"), ("clients", "/clients"), ("api", "/api/docs")):
            page.goto(path)
            page.wait_for_load_state("load")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path
            shoot(page, f"phone-{name}-{scheme}")


def test_a_run_is_put_in_order_and_deleted(served: Served, new_page: NewPage) -> None:
    store = served.services.store
    made = whole_run(store, "eden:bits=1", 1, 0.89, 1)
    page = new_page(served.url)
    page.goto(f"/runs/{made}")
    page.get_by_label("Tags, separated by commas").fill("paper, best")
    page.get_by_label("Note").fill("<b>keep</b>")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".title")).to_contain_text("<b>keep</b>")
    assert store.summary(made).tags == ("best", "paper")
    page.get_by_text("Delete this run").click()
    page.get_by_role("button", name="Delete for good").click()
    assert store.summary(made).id == made  # the browser asks for the id first
    page.get_by_label("Run id").fill(made)
    page.get_by_role("button", name="Delete for good").click()
    expect(page.get_by_text("No runs yet")).to_be_visible()
    assert store.list_runs() == []


def test_logging_in(tmp_path: Path, new_page: NewPage, shoot: Shoot) -> None:
    with serving(f"sqlite:///{tmp_path / 'runs.db'}", require_token=True) as served:
        with served.services.store.writing() as session:
            token, _ = create_token(session, "ada", "read")
        page = new_page(served.url)
        page.goto("/")
        expect(page).to_have_url(f"{served.url}/login")
        shoot(page, "login")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_text("No runs yet")).to_be_visible()
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(f"{served.url}/login")


PICK_WHEN_THE_ANSWER_COMES = """label => {
    const ask = window.fetch;
    window.fetch = async (...given) => {
        const answer = await ask(...given);
        window.fetch = ask;
        document.querySelector(`[aria-label="${label}"]`).click();
        return answer;
    };
}"""


def test_a_pick_that_an_answer_overtakes_is_kept(served: Served, new_page: NewPage) -> None:
    for compressor in ("identity", "terngrad"):
        whole_run(served.services.store, compressor, 8, 0.9, 1)
    page = new_page(served.url)
    page.goto("/")
    expect(page.locator("#pareto .scatterlayer .trace")).to_have_count(3)
    page.evaluate(PICK_WHEN_THE_ANSWER_COMES, "Pick terngrad 1")
    page.get_by_role("checkbox", name="Pick identity 1").check()
    expect(page.locator('[data-part="runs"]')).to_contain_text("2 picked")
