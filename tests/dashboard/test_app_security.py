from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from dashboard.services import Services
from dashboard.store import RunStart, RunStore
from dashboard.tokens import create_token, revoke_token
from tests.support.dashboard_server import Served, serving


@pytest.fixture
def url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """SQLite alone: what the databases differ in is tested with the store and the API."""
    return f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'runs.db')}"


@pytest.fixture
def open_dashboard(url: str) -> Iterator[Served]:
    with serving(url) as running:
        yield running


@pytest.fixture
def guarded(url: str) -> Iterator[Served]:
    with serving(url, require_token=True) as running:
        yield running


def token(services: Services, scope: str = "read", **given: timedelta) -> tuple[str, str]:
    with services.store.writing() as session:
        text, info = create_token(session, f"{scope}er", scope, **given)  # type: ignore[arg-type]
    return text, info.id


def csrf(client: httpx.Client, path: str) -> str:
    return str(re.findall(r'name="csrf" value="([^"]+)"', client.get(path).text)[0])


def log_in(served: Served, text: str) -> httpx.Response:
    return served.client.post("/login", data={"csrf": csrf(served.client, "/login"), "token": text})


def test_without_a_token_only_health_and_login_are_open(guarded: Served) -> None:
    guarded.client.headers["accept"] = "text/html"
    for path in ("/", "/clients", "/api/docs", "/events"):
        answer = guarded.client.get(path)
        assert (answer.status_code, answer.headers.get("location")) == (303, "/login"), path
    guarded.client.headers["accept"] = "*/*"
    for path in ("/", "/api/v1/runs", "/metrics", "/api/v1/runs.csv"):
        answer = guarded.client.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
    assert guarded.client.get("/healthz").json() == {"status": "ok"}
    assert guarded.client.get("/login").status_code == 200


def test_a_token_in_a_header(guarded: Served, start: RunStart) -> None:
    run_id = guarded.services.store.create_run(start)
    reading, _ = token(guarded.services)
    writing, _ = token(guarded.services, "write")
    change = {"note": "kept"}
    for text, read, write in ((reading, 200, 403), (writing, 200, 200), ("fedcomp_wrong", 401, 401)):
        headers = {"Authorization": f"Bearer {text}"}
        assert guarded.client.get("/api/v1/runs", headers=headers).status_code == read
        assert guarded.client.patch(f"/api/v1/runs/{run_id}", headers=headers, json=change).status_code == write
    for text, status in ((reading, 403), (writing, 422)):
        headers = {"Authorization": f"Bearer {text}"}
        assert guarded.client.post("/api/v1/ingest", headers=headers, json={"x": []}).status_code == status


def test_revoked_and_expired_tokens_are_refused_and_end_their_sessions(guarded: Served) -> None:
    text, token_id = token(guarded.services)
    assert log_in(guarded, text).headers["location"] == "/"
    assert guarded.client.get("/").status_code == 200
    with guarded.services.store.writing() as session:
        revoke_token(session, token_id)
    assert guarded.client.get("/").status_code == 401
    assert log_in(guarded, text).status_code == 401
    short, _ = token(guarded.services, valid_for=timedelta(microseconds=1))
    assert guarded.client.get("/", headers={"Authorization": f"Bearer {short}"}).status_code == 401


def test_login_needs_its_form_and_keeps_no_token(guarded: Served) -> None:
    text, _ = token(guarded.services)
    assert guarded.client.post("/login", data={"token": text}).status_code == 403
    answer = log_in(guarded, text)
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    assert text not in cookie
    assert guarded.client.post("/logout", data={"csrf": csrf(guarded.client, "/")}).status_code == 303
    assert guarded.client.get("/").status_code == 401


def test_the_cookie_is_secure_behind_https(guarded: Served) -> None:
    assert "Secure" in guarded.client.get("/login", headers={"X-Forwarded-Proto": "https"}).headers["set-cookie"]


def test_a_forged_cookie_is_nothing(guarded: Served) -> None:
    text, _ = token(guarded.services)
    log_in(guarded, text)
    cookie = guarded.client.cookies["fedcomp_session"]
    guarded.client.cookies.clear()
    forged = cookie[:5] + ("A" if cookie[5] != "A" else "B") + cookie[6:]
    assert guarded.client.get("/", headers={"Cookie": f"fedcomp_session={forged}"}).status_code == 401
    assert guarded.client.get("/", headers={"Cookie": f"fedcomp_session={cookie}"}).status_code == 200


def test_wrong_tokens_are_limited(guarded: Served) -> None:
    right, _ = token(guarded.services)
    wrong = {"Authorization": "Bearer fedcomp_wrong"}
    assert [guarded.client.get("/api/v1/runs", headers=wrong).status_code for _ in range(6)] == [401] * 5 + [429]
    answer = log_in(guarded, right)
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 60


def test_forms_need_what_only_our_pages_hold(open_dashboard: Served, start: RunStart, store: RunStore) -> None:
    run_id = store.create_run(start)
    client = open_dashboard.client
    path = f"/runs/{run_id}/rename"
    assert client.post(path, data={"name": "stolen"}).status_code == 403
    given = csrf(client, f"/runs/{run_id}")
    assert client.post(path, data={"name": "stolen", "csrf": given[:-1] + "x"}).status_code == 403
    foreign = {"Sec-Fetch-Site": "cross-site"}
    assert client.post(path, data={"name": "stolen", "csrf": given}, headers=foreign).status_code == 403
    assert client.patch(f"/api/v1/runs/{run_id}", json={"name": "stolen"}).status_code == 403
    assert store.summary(run_id).name == "first"
    assert client.post(path, data={"name": "mine", "csrf": given}).status_code == 303
    headers = {"X-CSRF-Token": given}
    assert client.patch(f"/api/v1/runs/{run_id}", json={"note": "x"}, headers=headers).status_code == 200
    assert (store.summary(run_id).name, store.summary(run_id).note) == ("mine", "x")


def test_a_reader_sees_no_forms(guarded: Served, start: RunStart) -> None:
    run_id = guarded.services.store.create_run(start)
    text, _ = token(guarded.services)
    log_in(guarded, text)
    assert "Rename" not in guarded.client.get(f"/runs/{run_id}").text
    given = csrf(guarded.client, f"/runs/{run_id}")
    assert guarded.client.post(f"/runs/{run_id}/rename", data={"name": "x", "csrf": given}).status_code == 403


def test_other_hosts_are_refused_where_no_token_is_asked_for(open_dashboard: Served, guarded: Served, url: str) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8420"):
        assert open_dashboard.client.get("/healthz", headers={"Host": host}).status_code == 421
        assert guarded.client.get("/healthz", headers={"Host": host}).status_code == 200
    for host in ("localhost:1", "127.0.0.1", "[::1]:8420"):
        assert open_dashboard.client.get("/healthz", headers={"Host": host}).status_code == 200
    with serving(url, allowed_hosts=("lab.example",)) as served:
        assert served.client.get("/healthz", headers={"Host": "lab.example"}).status_code == 200
