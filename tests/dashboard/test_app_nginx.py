from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from dashboard.store import RoundResult, RunStart, RunStore
from dashboard.tokens import create_token
from tests.support.dashboard_server import serving
from tests.support.required import skip_without

CONFIGURATION = """
daemon off; pid {folder}/pid; error_log stderr; {user}
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location /fed/ {{
      proxy_pass {upstream};
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $remote_addr;
      proxy_set_header X-Forwarded-Proto https;
      proxy_http_version 1.1;
    }}
  }}
}}
"""


@pytest.fixture
def url(migrated_sqlite: Path, tmp_path: Path) -> str:
    return f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'runs.db')}"


@contextmanager
def nginx(folder: Path, upstream: str) -> Iterator[str]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        skip_without("nginx", "nginx is not on the PATH (Debian: apt-get install nginx)")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    folder.mkdir()
    user = "user root;" if folder.owner() == "root" else ""
    text = CONFIGURATION.format(folder=folder, port=port, upstream=upstream, user=user)
    (folder / "nginx.conf").write_text(text)
    with subprocess.Popen([program, "-p", str(folder), "-c", str(folder / "nginx.conf")]) as process:
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}/fed"
        finally:
            process.terminate()


@pytest.mark.parametrize("stripped", [False, True])
def test_behind_a_proxy_with_a_prefix(
    url: str, store: RunStore, start: RunStart, result: RoundResult, tmp_path: Path, stripped: bool
) -> None:
    made = store.create_run(start)
    store.record_round(made, result, [])
    with (
        serving(url, root_path="/fed", require_token=True) as served,
        nginx(tmp_path / "nginx", served.url + ("/" if stripped else "")) as outside,
        httpx.Client(trust_env=False, timeout=20) as client,
    ):
        with store.writing() as session:
            token, _ = create_token(session, "ada", "write")
        page = client.get(f"{outside}/login")
        assert "Secure" in page.headers["set-cookie"]
        assert "Path=/fed" in page.headers["set-cookie"]
        assert client.get(f"{outside}/static/app.css").status_code == 200
        sent = {"csrf": re.findall(r'name="csrf" value="([^"]+)"', page.text)[0], "token": token}
        # The cookie is for https, which this proxy only claims to speak.
        cookie = {"Cookie": page.headers["set-cookie"].split(";")[0]}
        entered = client.post(f"{outside}/login", data=sent, headers=cookie)
        assert (entered.status_code, entered.headers["location"]) == (303, "/fed/")
        cookie = {"Cookie": entered.headers["set-cookie"].split(";")[0]}
        assert "first" in client.get(f"{outside}/", headers=cookie).text
        with client.stream("GET", f"{outside}/runs/{made}/events", headers=cookie) as answer:
            # Through nginx, which would hold a short answer back if it were not told otherwise.
            assert next(line for line in answer.iter_lines() if line.startswith("event:")) == "event: rounds"
