from __future__ import annotations

import http.client
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from fedcomp.site.authority import Certified
from fedcomp.site.federation import FederationFolder
from fedcomp.site.proxy import main_file, server_block
from fedcomp.site.setup import Plan, create_federation
from tests.support.commands import free_ports
from tests.support.required import skip_without
from tests.support.tls_server import Behaviour, serving


@contextmanager
def nginx(configuration: Path, port: int) -> Iterator[None]:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        skip_without("nginx", "nginx is not on the PATH (Debian: apt-get install nginx)")
    user = f"user {configuration.owner()}; " if configuration.owner() == "root" else ""
    with subprocess.Popen([program, "-c", str(configuration), "-g", f"{user}daemon off;"]) as process:
        try:
            for _ in range(400):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


def ask(folder: FederationFolder, port: int, method: str, path: str) -> int:
    context = ssl.create_default_context(cafile=str(folder.ca_certificate))
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=20, context=context)
    try:
        # The path goes out as it is written.
        connection.putrequest(method, path, skip_accept_encoding=True)
        connection.putheader("Content-Length", "0")
        connection.endheaders()
        return connection.getresponse().status
    finally:
        connection.close()


def test_only_the_fleet_api_gets_through(tmp_path: Path, now: datetime) -> None:
    behaviour = Behaviour(status=299, pages={"/openapi.json", "/docs", "/health", "/v1/fleet/pull-messages"})
    port, local_port = free_ports(2)
    path = tmp_path / "federation"
    federation = create_federation(
        path, Plan(hosts=("127.0.0.1",), names=("bank",), port=port, local_port=local_port), now=now
    )
    folder = FederationFolder(path)
    shown = Certified.from_pem(folder.server_key.read_bytes(), folder.server_certificate.read_bytes())
    with serving(behaviour, shown, tmp_path) as upstream:
        behind = federation.model_copy(update={"local_port": upstream})
        (folder.deploy / "fedcomp-nginx.conf").write_text(server_block(behind, folder))
        (folder.deploy / "nginx.conf").write_text(main_file(folder, temporary=str(tmp_path)))
        with nginx(folder.deploy / "nginx.conf", port):
            assert ask(folder, port, "POST", "/v1/fleet/pull-messages") == 299
            assert behaviour.asked == [("POST", "/v1/fleet/pull-messages")]
            behaviour.asked.clear()
            assert ask(folder, port, "GET", "/v1/fleet/pull-messages") == 403
            for spelling in (
                "/",
                "/docs",
                "/openapi.json",
                "/health",
                "/v1/control/start-run",
                "/v1/runtime/push-messages",
                "/v1/fleet/",
                "/v1/fleet/../control/start-run",
                "/v1/fleet/%2e%2e/control/start-run",
                "/v1/fleet/..%2fcontrol/start-run",
                "/v1/fleet//../../v1/control/start-run",
                "/v1/control/start-run?/v1/fleet/pull-messages",
                "/v1/control/start-run%3f/v1/fleet/pull-messages",
                "/V1/fleet/pull-messages",
            ):
                assert ask(folder, port, "POST", spelling) in (400, 404), spelling
            assert behaviour.asked == []
            # What is another spelling of an allowed path reaches the SuperLink in the plain one only.
            assert ask(folder, port, "POST", "/v1/control/..%2ffleet/pull-messages") == 299
            assert behaviour.asked == [("POST", "/v1/fleet/pull-messages")]


def test_an_upstream_that_is_not_the_coordinators_gets_nothing(tmp_path: Path, now: datetime) -> None:
    from fedcomp.site.authority import create_authority, issue_server

    stranger = issue_server(create_authority("another", now=now), ["localhost", "127.0.0.1"], now=now)
    behaviour = Behaviour(status=299)
    (port,) = free_ports(1)
    path = tmp_path / "federation"
    with serving(behaviour, stranger, tmp_path) as upstream:
        create_federation(path, Plan(hosts=("127.0.0.1",), names=("bank",), port=port, local_port=upstream), now=now)
        folder = FederationFolder(path)
        (folder.deploy / "nginx.conf").write_text(main_file(folder, temporary=str(tmp_path)))
        with nginx(folder.deploy / "nginx.conf", port):
            assert ask(folder, port, "POST", "/v1/fleet/pull-messages") == 502
    assert behaviour.asked == []


@pytest.mark.parametrize("host", ["2001:db8::7", "fl.example.org"])
def test_nginx_accepts_every_kind_of_host(tmp_path: Path, now: datetime, host: str) -> None:
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        skip_without("nginx", "nginx is not on the PATH (Debian: apt-get install nginx)")
    path = tmp_path / "federation"
    create_federation(path, Plan(hosts=(host,), names=("bank",), port=free_ports(1)[0]), now=now)
    folder = FederationFolder(path)
    (folder.deploy / "nginx.conf").write_text(main_file(folder, temporary=str(tmp_path)))
    done = subprocess.run(
        [program, "-t", "-c", str(folder.deploy / "nginx.conf")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
