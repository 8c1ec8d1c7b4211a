from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dashboard.changes import archive
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from tests.support.dashboard_server import Served, serving


@pytest.fixture
def url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """SQLite alone: what the databases differ in is tested with the store and the API."""
    return f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'runs.db')}"


@pytest.fixture
def served(url: str) -> Iterator[Served]:
    with serving(url) as running:
        yield running


@pytest.fixture
def run_id(store: RunStore, start: RunStart, result: RoundResult, client: ClientResult) -> str:
    made = store.create_run(start)
    store.start_run(made)
    store.record_round(made, result, [client])
    return made


class Outside(HTMLParser):
    """Collects what the policy refuses: code in the page itself, and addresses elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in given):
            self.found.append(f"inline {tag}")
        for name, value in given.items():
            if name.startswith("on") or name == "style":
                self.found.append(f"{tag} {name}")
            if name in ("src", "href", "action") and re.match(r"[a-z]+:|//", value or ""):
                self.found.append(f"{tag} {name}={value}")


def outside(page: str) -> list[str]:
    parser = Outside()
    parser.feed(page)
    return parser.found


PAGES = ("/", "/runs/latest", "/runs/latest/rounds/1", "/clients", "/compressors", "/api/docs", "/login", "/nothing")


def test_no_page_has_code_in_it_or_asks_others(served: Served, run_id: str) -> None:
    for path in PAGES:
        answer = served.client.get(path)
        assert answer.status_code == (404 if path == "/nothing" else 200), path
        assert outside(answer.text) == [], path
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert "http" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_the_policy_refuses_is_seen() -> None:
    page = '<script>1</script><img src="//cdn.example/x"><a href="https://x.example" onclick="f()" style="x">'
    assert len(outside(page)) == 5


def test_empty_pages_say_what_to_run(served: Served) -> None:
    for path in ("/", "/clients"):
        assert "fedcomp simulate" in served.client.get(path).text
    assert "Compressors" in served.client.get("/compressors").text


def test_the_run_page_shows_the_run(served: Served, run_id: str) -> None:
    page = served.client.get(f"/runs/{run_id}").text
    for text in ("first", "hospital-a", "0.5000", "running", "learning-rate", "Stop after this round"):
        assert text in page
    assert "Delete this run" not in page


def test_numbers_that_are_none_are_shown(served: Served, store: RunStore, run_id: str, result: RoundResult) -> None:
    odd = result.model_copy(update={"round_index": 2, "accuracy": math.nan, "loss": math.inf, "train_loss": -math.inf})
    store.record_round(run_id, odd, [])
    page = served.client.get(f"/runs/{run_id}").text
    assert "NaN" in page
    assert "∞" in page
    assert "−∞" in page
    assert served.client.get("/").status_code == 200
    assert served.client.get(f"/runs/{run_id}/export/rounds.csv").text.splitlines()[2].split(",")[1] == "NaN"


def test_names_are_escaped(served: Served, store: RunStore, start: RunStart) -> None:
    store.create_run(start.model_copy(update={"name": "<script>alert(1)</script>"}))
    for path in ("/", "/runs/latest"):
        page = served.client.get(path).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page


def test_states_are_told_apart(served: Served, store: RunStore, start: RunStart, result: RoundResult) -> None:
    for status in ("completed", "failed", "cancelled"):
        made = store.create_run(start)
        store.start_run(made)
        store.finish_run(made, status, "it broke" if status == "failed" else None)
        page = served.client.get(f"/runs/{made}").text
        assert f"badge-{status}" in page
        assert ("it broke" in page) == (status == "failed")
    made = store.create_run(start)
    assert "badge-queued" in served.client.get(f"/runs/{made}").text
    for status in ("partial", "skipped", "rolled-back"):
        store.record_round(made, result.model_copy(update={"status": status, "note": f"why {status}"}), [])
        page = served.client.get(f"/runs/{made}").text
        assert f"round-{status}" in page
        assert f"why {status}" in page


def test_the_first_page_names_the_cheapest(
    served: Served, store: RunStore, start: RunStart, result: RoundResult
) -> None:
    for compressor, sent, accuracy in (("identity", 3200, 0.9), ("eden:bits=1", 100, 0.89), ("terngrad", 160, 0.5)):
        made = store.create_run(start.model_copy(update={"compressor": compressor}))
        fields = {"uplink_payload_bytes": sent * 1000, "downlink_payload_bytes": 0, "accuracy": accuracy}
        store.record_round(made, result.model_copy(update=fields), [])
    page = served.client.get("/?target=0.85").text
    heading = re.sub(r"<[^>]+>", "", re.findall(r"<h1>.*?</h1>", page, re.DOTALL)[0])
    assert heading == "eden:bits=1 reaches accuracy 0.85 for 100 kB"
    assert "32 times fewer bytes" in re.sub(r"\s+", " ", page)
    assert "none reached accuracy 0.99" in served.client.get("/?target=0.99").text
    # What somebody picks, and nothing else, is compared.
    answer = served.client.get("/api/v1/compare", params={"run": made, "target": 0.4}).json()
    assert [row["label"] for row in answer["groups"]] == ["terngrad"]
    assert answer["groups"][0]["to_target_bytes"] == 160_000


@pytest.mark.parametrize(
    "query", ["x=nothing", "target=abc", "since=yesterday", "smooth=100", "min_bits=inf", "lines=all", "status=gone"]
)
def test_a_wrong_address_is_said_to_be_wrong(served: Served, query: str) -> None:
    answer = served.client.get(f"/?{query}")
    assert answer.status_code == 422
    assert query.split("=", maxsplit=1)[0] in answer.text
    assert served.client.get("/?min_bits=&since=&tag=&status=&target=").status_code == 200


def test_the_first_page_begins_with_a_task_that_has_runs_to_show(
    served: Served, store: RunStore, start: RunStart
) -> None:
    store.create_run(start.model_copy(update={"name": "shown", "task": "emnist"}))
    later = start.created_at + timedelta(seconds=1)
    put_away = store.create_run(start.model_copy(update={"name": "hidden", "task": "other", "created_at": later}))
    assert ">hidden<" in served.client.get("/").text
    with store.writing() as session:
        archive(session, put_away, archived=True)
    page = served.client.get("/").text
    assert "shown" in page
    assert ">hidden<" not in page
    assert ">hidden<" in served.client.get("/?archived=true").text


def test_unknown_runs_are_not_found(served: Served) -> None:
    assert served.client.get("/runs/nothing").status_code == 404
    assert served.client.get("/runs/%00").status_code == 400
    assert served.client.get("/?name=%00").status_code == 400


def test_a_log_is_shown_where_there_is_one(served: Served, store: RunStore, start: RunStart, run_id: str) -> None:
    from fedcomp.home import home

    assert "No log of this run" in served.client.get(f"/runs/{run_id}").text
    (home() / "logs").mkdir()
    (home() / "logs" / f"{start.flower_run_id}.log").write_text("line\n" * 3000 + "\x1b[92mthe <end>\x1b[0m\n")
    page = served.client.get(f"/runs/{run_id}").text
    assert "the &lt;end&gt;" in page
    assert page.count("line\n") < 70
    made = store.create_run(start.model_copy(update={"flower_run_id": "../../secret"}))
    (home() / "secret.log").write_text("secret")
    assert "No log of this run" in served.client.get(f"/runs/{made}").text


def test_a_prefix_is_in_every_address(url: str, run_id: str) -> None:
    with serving(url, root_path="/fed/") as served:
        # Proxies may take the prefix off or leave it.
        for path in ("/", "/fed/", f"/fed/runs/{run_id}", f"/runs/{run_id}"):
            page = served.client.get(path)
            assert page.status_code == 200
            links = re.findall(r'(?:href|src|action|data-events)="(/[^"]*)"', page.text)
            assert links
            assert [link for link in links if not link.startswith("/fed/")] == []
        assert served.client.get("/fed/static/app.css").status_code == 200
        assert served.client.get("/fed/api/v1/openapi.json").json()["servers"] == [{"url": "/fed"}]
