from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from dashboard.errors import TokenNotFound
from dashboard.serving import CannotListen, _listen, url_of
from dashboard.settings import is_loopback, load_settings
from dashboard.store import RunStart, RunStore
from fedcomp.commands.dashboard import app
from fedcomp.errors import ConfigError

ROOT = Path(__file__).resolve().parents[2]
EVERYWHERE = "0.0.0.0"  # noqa: S104
COMMAND = (sys.executable, "-c", "from fedcomp.commands.main import main; main()", "dashboard")


@pytest.fixture
def url(migrated_sqlite: Path) -> str:
    return f"sqlite:///{migrated_sqlite}"


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT)}


@contextmanager
def running(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run the command and yield its process and the URL that it prints."""
    with subprocess.Popen(
        [*COMMAND, *arguments], env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, line + process.stdout.read()
            yield process, found.group()
        finally:
            process.kill()


def test_the_command_serves_and_ends_with_streams_open(tmp_path: Path, start: RunStart) -> None:
    database = f"sqlite:///{tmp_path / 'its own.db'}"
    with running("--port", "0", "--database", database) as (process, url):
        with RunStore(database) as store:
            run_id = store.create_run(start)
        with httpx.Client(base_url=url, timeout=20, trust_env=False) as client:
            assert "first" in client.get("/").text
            with client.stream("GET", f"/runs/{run_id}/events") as one, client.stream("GET", "/events") as two:
                assert next(one.iter_lines())
                assert next(two.iter_lines())
                began = time.monotonic()
                process.send_signal(signal.SIGTERM)
                process.wait(5)
                assert time.monotonic() - began < 5
        assert process.returncode in (0, -signal.SIGTERM)


def refusal(*words: str) -> str:
    """Return why the command does not serve."""
    error = CliRunner().invoke(app, [*words, "--port", "0"]).exception
    assert isinstance(error, ConfigError)
    return str(error)


def test_a_host_beyond_loopback_needs_a_token(url: str) -> None:
    why = refusal("--host", EVERYWHERE, "--database", url)
    assert why.startswith(f"host='{EVERYWHERE}' lets other machines in, which asks for a token, and there is none")
    assert "`fedcomp dashboard tokens add NAME` and the same --database" in why


def test_on_loopback_the_reason_is_the_setting(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    why = refusal("--require-token", "--database", url)
    assert why.startswith("require-token=true asks for a token, and there is none that is valid: make one with")
    assert "other machines" not in why
    monkeypatch.setenv("FEDCOMP_DASHBOARD_REQUIRE_TOKEN", "1")
    monkeypatch.setenv("FEDCOMP_DASHBOARD_DATABASE", url)
    assert refusal() == why.removesuffix(" and the same --database")


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    database = f"sqlite:///{tmp_path / 'runs.db'}"

    def tokens(*words: str) -> Result:
        return CliRunner().invoke(app, ["tokens", *words, "--database", database])

    assert "no tokens" in tokens("list").stdout
    made = tokens("add", "ada", "--scope", "write", "--days", "30")
    token = made.stdout.strip()
    assert token.startswith("fedcomp_")
    assert "ada" in made.stderr
    assert token.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("runs.db*"))
    listed = tokens("list").stdout
    assert "ada" in listed
    token_id = made.stderr.split()[1]
    assert tokens("revoke", token_id).exit_code == 0
    assert isinstance(tokens("revoke", "nothing").exception, TokenNotFound)
    assert isinstance(tokens("add", "ada", "--scope", "all").exception, ConfigError)
    assert "none that is valid" in refusal("--require-token", "--database", database)


def test_a_port_that_is_taken_is_named(url: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=rf"port {port} of 127\.0\.0\.1 is taken"):
            _listen("127.0.0.1", port)
    with pytest.raises(CannotListen, match=r"host '192\.0\.2\.1'"):
        _listen("192.0.2.1", 0)


@pytest.mark.parametrize(
    ("host", "alone"),
    [(host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost")]
    + [(host, False) for host in (EVERYWHERE, "::", "192.168.1.1", "example.org", "")],
)
def test_what_is_loopback(host: str, alone: bool) -> None:
    assert is_loopback(host) == alone
    assert load_settings(host=host, database="x").token_required == (not alone)


def test_settings_come_from_options_then_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDCOMP_DASHBOARD_PORT", "1234")
    monkeypatch.setenv("FEDCOMP_DASHBOARD_ALLOWED_HOSTS", "a.example, b.example")
    monkeypatch.setenv("FEDCOMP_DASHBOARD_TOKEN", "a writer's, not ours")
    settings = load_settings(database="x", port=None)
    assert settings.port == 1234
    assert settings.hosts is not None
    assert settings.hosts[-2:] == ("a.example", "b.example")
    assert load_settings(database="x", port=4321).port == 4321
    monkeypatch.setenv("FEDCOMP_DASHBOARD_PORT", "65536")
    with pytest.raises(ConfigError, match=r"port='65536': .*FEDCOMP_DASHBOARD_PORT"):
        load_settings(database="x")
    with pytest.raises(ConfigError, match=r"root-path='fed': .*\(option --root-path or FEDCOMP_DASHBOARD_ROOT_PATH\)"):
        load_settings(database="x", port=1, root_path="fed")
    monkeypatch.setenv("FEDCOMP_DASHBOARD_POLL_SECONDS", "0")
    with pytest.raises(ConfigError, match=r"poll-seconds='0': .*\(FEDCOMP_DASHBOARD_POLL_SECONDS\)"):
        load_settings(database="x", port=1)


def test_the_printed_address_can_be_opened() -> None:
    assert url_of(load_settings(database="x", root_path="/fed/"), 80) == "http://127.0.0.1:80/fed/"
    assert url_of(load_settings(database="x", host=EVERYWHERE), 80) == "http://127.0.0.1:80/"
    assert url_of(load_settings(database="x", host="[::]"), 80) == "http://[::1]:80/"
