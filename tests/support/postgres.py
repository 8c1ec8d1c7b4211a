"""A PostgreSQL cluster for the tests: in a temporary folder, reached by a socket in it, thrown away afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import pytest

# For tests that take many seconds: parametrize "url" by it, indirectly, and `make test` runs them on SQLite alone.
SLOW_ON_POSTGRESQL = ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)]

_SYSTEM_USER = "postgres"  # initdb and the server refuse to run as root
_OPTIONS = "-c listen_addresses='' -c fsync=off -c synchronous_commit=off -c full_page_writes=off"


class NoPostgres(Exception):
    """This machine has no PostgreSQL server to start, or no user that may start it."""


class Cluster:
    """A running server; `socket` is the folder of its socket."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._made = 0

    def url(self, database: str) -> str:
        """Return the SQLAlchemy URL of one of its databases."""
        return f"postgresql+psycopg://{_SYSTEM_USER}@/{database}?host={quote(str(self._socket), safe='')}"

    def create(self) -> str:
        """Make an empty database and return its name."""
        import psycopg

        self._made += 1
        name = f"test_{self._made}"
        socket = str(self._socket)
        with psycopg.connect(host=socket, user=_SYSTEM_USER, dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'".encode())
        return name


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Start a server for as long as the ``with`` block lasts. Raises ``NoPostgres``."""
    bin_folder = _binaries()
    user = _user()
    # A short path of its own: a socket's path has 107 characters at most, and its owner must reach it.
    folder = Path(tempfile.mkdtemp(prefix="fedcomp-pg-"))
    try:
        if user is not None:
            os.chown(folder, user.pw_uid, user.pw_gid)
        data = folder / "data"
        _run(user, [bin_folder / "initdb", "-D", data, "-U", _SYSTEM_USER, "-A", "trust", "-E", "UTF8", "--no-sync"])
        options = f"{_OPTIONS} -k {folder}"
        _run(user, [bin_folder / "pg_ctl", "-D", data, "-l", folder / "log", "-o", options, "-w", "-t", "120", "start"])
        try:
            yield Cluster(folder)
        finally:
            _run(user, [bin_folder / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _binaries() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3].split(".")[0]))
    if found:
        return found[-1].parent
    command = shutil.which("initdb")
    if command is None:
        raise NoPostgres("there is no PostgreSQL server on this machine (Debian: apt install postgresql)")
    return Path(command).resolve().parent


def _user() -> pwd.struct_passwd | None:
    """Return who the server runs as; None is who we are."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam(_SYSTEM_USER)
    except KeyError:
        raise NoPostgres(f"PostgreSQL refuses to run as root, and there is no user {_SYSTEM_USER!r}") from None


def _run(user: pwd.struct_passwd | None, command: Sequence[str | Path]) -> None:
    # The server would keep pipes open for as long as it runs, so that reading its output to the end would never end.
    with tempfile.TemporaryFile("w+") as output:
        done = subprocess.run(
            [str(word) for word in command],
            cwd="/",
            env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            user=None if user is None else user.pw_uid,
            group=None if user is None else user.pw_gid,
            extra_groups=None if user is None else [],
        )
        if done.returncode:
            output.seek(0)
            raise RuntimeError(f"{command[0]} ended with {done.returncode}:\n{output.read()}")
