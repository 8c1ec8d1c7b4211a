from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator

import pytest

from dashboard.compressor_table import compressor_rows, shannon_bound
from dashboard.export import cell
from dashboard.rendering import STATIC
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from fedcomp.compressors.catalogue import SCHEMES
from tests.support.dashboard_server import Served, serving


@pytest.fixture
def served(url: str) -> Iterator[Served]:
    with serving(url) as running:
        yield running


def test_runs_come_in_pages(served: Served, store: RunStore, start: RunStart) -> None:
    made = [store.create_run(start) for _ in range(5)]
    seen: list[str] = []
    cursor = None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = served.client.get("/api/v1/runs", params=query).json()
        assert page["total"] == 5
        seen += [run["id"] for run in page["runs"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(made)
    assert len(seen) == 5
    assert served.client.get("/api/v1/runs?cursor=nothing").status_code == 400
    assert served.client.get("/api/v1/runs?limit=0").status_code == 422


def test_rounds_come_in_pages(served: Served, store: RunStore, start: RunStart, result: RoundResult) -> None:
    made = store.create_run(start)
    for index in range(5):
        store.record_round(made, result.model_copy(update={"round_index": index}), [])
    first = served.client.get(f"/api/v1/runs/{made}/rounds?limit=3").json()
    assert ([row["round_index"] for row in first["rounds"]], first["next_after"]) == ([0, 1, 2], 2)
    last = served.client.get(f"/api/v1/runs/{made}/rounds?after=2&limit=3").json()
    assert ([row["round_index"] for row in last["rounds"]], last["next_after"]) == ([3, 4], None)


def test_numbers_that_are_none_are_strings(
    served: Served, store: RunStore, start: RunStart, result: RoundResult, client: ClientResult
) -> None:
    made = store.create_run(start)
    odd = {"accuracy": math.nan, "loss": math.inf, "bits_per_coordinate": math.nan}
    store.record_round(made, result.model_copy(update=odd), [client.model_copy(update={"vnmse": -math.inf})])
    row = served.client.get(f"/api/v1/runs/{made}/rounds").json()["rounds"][0]
    assert (row["accuracy"], row["loss"], row["bits_per_coordinate"]) == ("NaN", "Infinity", "NaN")
    assert served.client.get(f"/api/v1/runs/{made}/rounds/1/clients").json()[0]["vnmse"] == "-Infinity"
    assert served.client.get(f"/api/v1/runs/{made}").json()["last_accuracy"] == "NaN"
    for y in ("accuracy", "loss", "vnmse", "nmse", "bits", "downlink_bits"):
        answer = served.client.get("/api/v1/compare", params={"run": made, "y": y, "x": "seconds"})
        assert answer.status_code == 200, y
    assert served.client.get(f"/api/v1/runs/{made}/clients").status_code == 200
    assert 'fedcomp_runs{status="queued"} 1' in served.client.get("/metrics").text
    store.start_run(made)
    assert re.search(r"^fedcomp_run_accuracy\{.*\} NaN$", served.client.get("/metrics").text, re.MULTILINE)


def test_changes_are_all_or_nothing(served: Served, store: RunStore, start: RunStart) -> None:
    made = store.create_run(start)
    path = f"/api/v1/runs/{made}"
    changed = served.client.patch(
        path, json={"name": "new", "tags": ["b", "a"], "note": "why", "archived": True}
    ).json()
    assert (changed["name"], changed["tags"], changed["note"]) == ("new", ["a", "b"], "why")
    assert served.client.get("/api/v1/runs").json()["total"] == 0
    assert served.client.get("/api/v1/runs?archived=true&tag=a").json()["total"] == 1
    refused = served.client.patch(path, json={"name": "other", "tags": ["with,comma"]})
    assert refused.status_code == 422
    assert "no comma" in refused.json()["detail"]
    assert store.summary(made).name == "new"
    assert served.client.patch(path, json={"seed": 1}).status_code == 422
    assert served.client.delete(path).status_code == 409
    assert served.client.post(f"{path}/stop").json()["stop_requested_at"] is not None
    store.finish_run(made, "cancelled")
    assert served.client.post(f"{path}/stop").status_code == 409
    assert served.client.delete(path).status_code == 204
    assert served.client.get(path).status_code == 404


def test_csv_is_safe_for_spreadsheets(served: Served, store: RunStore, start: RunStart) -> None:
    store.create_run(start.model_copy(update={"name": '=cmd|"x"!A1, and\nmore'}))
    answer = served.client.get("/api/v1/runs.csv")
    assert answer.headers["content-type"].startswith("text/csv")
    (row,) = csv.DictReader(io.StringIO(answer.text))
    assert row["name"] == '\'=cmd|"x"!A1, and\nmore'
    assert row["seed"] == str(2**64 - 1)
    assert cell(("a", "b")) == "a b"
    assert cell(-1.5) == -1.5


def test_a_whole_run_as_json(served: Served, store: RunStore, start: RunStart, result: RoundResult) -> None:
    made = store.create_run(start)
    store.record_round(made, result, [])
    answer = served.client.get(f"/runs/{made}/export/run.json")
    assert f'filename="{made}.json"' in answer.headers["content-disposition"]
    assert answer.json()["rounds"][0]["accuracy"] == 0.5
    assert served.client.get(f"/runs/{made}/export/other").status_code == 422


def test_ingested_events_are_applied(served: Served, store: RunStore, start: RunStart) -> None:
    event = {"kind": "create-run", "run_id": "20261129-175312-k3f9", "start": start.model_dump(mode="json")}
    for _ in range(2):  # sent again, it changes nothing
        assert served.client.post("/api/v1/ingest", json={"events": [event]}).status_code == 200
    assert [run.id for run in store.list_runs()] == ["20261129-175312-k3f9"]


def test_every_answer_is_counted(served: Served) -> None:
    served.client.get("/nothing")
    assert 'fedcomp_dashboard_requests_total{method="GET",status="404"} 1' in served.client.get("/metrics").text


def test_the_documentation_names_every_call(served: Served) -> None:
    document = served.client.get("/api/v1/openapi.json").json()
    page = served.client.get("/api/docs").text
    assert len(document["paths"]) > 10
    for path in document["paths"]:
        assert f"<code>{path}</code>" in page


def test_compressors_are_those_of_the_catalogue() -> None:
    rows = compressor_rows()
    assert [row.spec for row in rows] == [example.spec for scheme in SCHEMES for example in scheme.examples]
    assert shannon_bound(1, unbiased=True) == pytest.approx(1 / 3)
    assert shannon_bound(2, unbiased=False) == 1 / 16
    # Nothing beats the bound on the vector that it holds for.
    flat = [row for row in rows if row.bound is not None and row.scheme != "identity"]
    assert [row.spec for row in flat if row.vnmse < row.bound] == []  # type: ignore[operator]
    assert {row.spec for row in rows if row.bound is None} == {"qsgd:bits=4,coding=entropy", "powersgd:rank=2"}


def test_vendored_files_are_what_was_published() -> None:
    import hashlib

    folder = STATIC / "vendor"
    sums = dict(line.split()[::-1] for line in (folder / "SHA256SUMS").read_text().splitlines())
    assert set(sums) == {path.name for path in folder.iterdir()} - {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, name
    assert "MIT" in (folder / "pico-LICENSE.txt").read_text()
    assert "MIT" in (folder / "plotly-LICENSE.txt").read_text()
