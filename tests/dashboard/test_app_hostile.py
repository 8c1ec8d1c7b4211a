from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok

from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from dashboard.tokens import create_token
from tests.support.dashboard_server import Served, serving

ODD = ["", "0", "-1", "nan", "inf", "1e400", str(2**63), "%", "\x7f", "ä", "\U0001f40d", "'; --", "../..", "[]", "null"]
QUERY = ["task", "compressor", "group", "x", "y", "target", "since", "smooth", "run", "cost", "min_bits", "tag", "name"]
FORMS = [("rename", "name"), ("notes", "tags"), ("notes", "note"), ("archive", "archived"), ("delete", "confirm")]
WRITES = {
    ("PATCH", "/api/v1/runs/{run_id}"),
    ("DELETE", "/api/v1/runs/{run_id}"),
    ("POST", "/api/v1/runs/{run_id}/stop"),
    ("POST", "/api/v1/ingest"),
}
anything = st.sampled_from(ODD) | st.text(max_size=20)

START = RunStart(
    name="first", task="t", data_label="d", compressor="drive", strategy="fedavg", seed=1, num_rounds=3, dim=9,
    config={"a": {"b": [float("nan")]}}, environment={},
)  # fmt: skip
ROUND = RoundResult(
    round_index=1, accuracy=float("nan"), clients=1, uplink_payload_bytes=1, uplink_envelope_bytes=1,
    downlink_payload_bytes=1, downlink_envelope_bytes=1, bits_per_coordinate=float("inf"), seconds=float("nan"),
)  # fmt: skip
CLIENT = ClientResult(
    client="a", client_id="1", node_id="2", num_examples=0, payload_bytes=1, envelope_bytes=1,
    bits_per_coordinate=float("nan"), train_seconds=float("inf"), encode_seconds=0, decode_seconds=0, device="cpu",
)  # fmt: skip


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard with one run of one odd round; nothing in it is changed but what the calls change."""
    folder: Path = tmp_path_factory.mktemp("hostile")
    database = f"sqlite:///{folder / 'runs.db'}"
    with RunStore(database) as store:
        made = store.create_run(START)
        store.record_round(made, ROUND, [CLIENT])
    with serving(database) as served:
        yield served


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A dashboard that asks for tokens, called with one that may write."""
    database = f"sqlite:///{tmp_path_factory.mktemp('guarded') / 'runs.db'}"
    with serving(database, require_token=True) as served:
        with served.services.store.writing() as session:
            text, _ = create_token(session, "program", "write")
        served.client.headers["Authorization"] = f"Bearer {text}"
        yield served


def test_no_call_of_the_api_fails(guarded: Served) -> None:
    store = guarded.services.store
    made = store.create_run(START)  # queued, so that it cannot be deleted
    store.record_round(made, ROUND, [CLIENT])
    document = guarded.client.get("/api/v1/openapi.json").json()
    schema = schemathesis.openapi.from_dict(document)
    operations = [found.ok() for found in schema.get_all_operations() if isinstance(found, Ok)]
    answers: dict[tuple[str, str], set[int]] = {(each.method.upper(), each.path): set() for each in operations}
    assert answers.keys() >= WRITES
    assert len(answers) == sum(len(methods) for methods in document["paths"].values()) > 15

    for operation in operations:

        @settings(max_examples=12, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy(), known=st.booleans())
        def check(case: Any, known: bool) -> None:
            if known and "run_id" in case.path_parameters:
                case.path_parameters["run_id"] = made
            answer = case.call(base_url=guarded.url, headers=dict(guarded.client.headers))
            case.validate_response(answer, checks=[not_a_server_error])
            answers[case.method.upper(), case.operation.path].add(answer.status_code)

        check()
    # The token was taken, and where a run is named it was not always one that is not there.
    assert {call: codes for call, codes in answers.items() if codes & {401, 403} or codes <= {404}} == {}


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(QUERY), anything, max_size=5))
def test_no_address_of_a_page_fails(base: Served, query: dict[str, str]) -> None:
    for path in ("/", "/clients"):
        assert base.client.get(path, params=query).status_code in (200, 400, 422)


@settings(max_examples=40)
@given(anything, anything)
def test_no_form_fails(base: Served, run: str, value: str) -> None:
    csrf = re.findall(r'name="csrf" value="([^"]+)"', base.client.get("/login").text)[0]
    made = base.client.get("/api/v1/runs?archived=false").json()["runs"]
    for name, field in FORMS:
        path = httpx.URL(base.url).copy_with(path=f"/runs/{made[0]['id'] if made else 'none'}/{name}")
        assert base.client.post(path, data={"csrf": csrf, field: value}).status_code < 500
    assert base.client.post("/login", data={"csrf": value, "token": run}).status_code < 500
