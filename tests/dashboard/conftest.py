from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from dashboard.db import create_engine_for, upgrade
from dashboard.models import Base
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
from tests.support.postgres import Cluster, NoPostgres, cluster
from tests.support.required import skip_without

HEAD = "0004"  # the newest schema revision
ROOT = Path(__file__).resolve().parents[2]
# Imports are slow and uneven: every process says when it is ready and then waits for the others.
PREAMBLE = """
import sys
from dashboard.db import create_engine_for, upgrade
from dashboard.models import Base
from dashboard.store import ClientResult, RoundResult, RunStart, RunStore
sys.stdout.write("ready\\n"); sys.stdout.flush(); sys.stdin.readline()
"""

Race = Callable[[str, Sequence[Sequence[str]]], list[str]]


@pytest.fixture
def race() -> Iterator[Race]:
    """Run code once per argument list, each in a process of its own, all let go at the same moment."""
    started: list[subprocess.Popen[str]] = []

    def run(code: str, arguments: Sequence[Sequence[str]]) -> list[str]:
        for words in arguments:
            started.append(
                subprocess.Popen(
                    [sys.executable, "-W", "error", "-c", PREAMBLE + code, *words],
                    env=os.environ | {"PYTHONPATH": str(ROOT)},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        for process in started:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                pytest.fail(process.communicate()[1])
        for process in started:
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        outputs = []
        for process in started:
            stdout, stderr = process.communicate(timeout=60)
            assert process.returncode == 0, stderr
            outputs.append(stdout)
        return outputs

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture(scope="session")
def postgres_cluster() -> Iterator[Cluster]:
    with ExitStack() as stack:
        try:
            found = stack.enter_context(cluster())
        except NoPostgres as error:
            skip_without("postgres", str(error))
        yield found


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make an empty database of this release; a copy is there sooner than one that is migrated anew."""
    path = tmp_path_factory.mktemp("template") / "runs.db"
    migrate_to_head(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def migrated_postgres(postgres_cluster: Cluster) -> str:
    url = postgres_cluster.url(postgres_cluster.create())
    migrate_to_head(url)
    return url


def migrate_to_head(url: str) -> None:
    engine = create_engine_for(url)
    upgrade(engine)
    engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'runs.db'}"
    made: Cluster = request.getfixturevalue("postgres_cluster")
    return made.url(made.create())


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a database without rows."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("migrated_sqlite"), tmp_path / "runs.db")
        return f"sqlite:///{tmp_path / 'runs.db'}"
    emptied: str = request.getfixturevalue("migrated_postgres")
    take_rows_out(emptied)
    return emptied


def take_rows_out(url: str) -> None:
    """Leave a migrated PostgreSQL database as it was before the last test: cheaper than a new one, by far."""
    engine = create_engine_for(url)
    with engine.begin() as connection:
        connection.exec_driver_sql("SET LOCAL lock_timeout = '20s'")
        connection.exec_driver_sql(f"TRUNCATE {', '.join(Base.metadata.tables)}")
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{HEAD}'")  # noqa: S608 - our own constant
    engine.dispose()


@pytest.fixture
def store(url: str) -> Iterator[RunStore]:
    with RunStore(url) as opened:
        yield opened


@pytest.fixture
def start() -> RunStart:
    return RunStart(
        name="first",
        task="emnist",
        data_label="EMNIST letters",
        compressor="eden:bits=2",
        strategy="fedavg",
        seed=2**64 - 1,
        num_rounds=3,
        dim=1000,
        config={"learning-rate": 0.05, "nested": {"list": [1, "two", None, True]}},
        environment={"packages": {"torch": "2.13.0"}, "device": "cpu"},
        flower_run_id="17446744073709551615",
    )


@pytest.fixture
def result() -> RoundResult:
    return RoundResult(
        round_index=1,
        accuracy=0.5,
        loss=1.5,
        train_loss=2.5,
        clients=2,
        rejected=1,
        uplink_payload_bytes=2**40,
        uplink_envelope_bytes=2**41,
        downlink_payload_bytes=2**42,
        downlink_envelope_bytes=2**43,
        bits_per_coordinate=2.01,
        seconds=1.25,
    )


@pytest.fixture
def client() -> ClientResult:
    return ClientResult(
        client="hospital-a",
        client_id="9223372036854775808",
        node_id="18446744073709551615",
        num_examples=100,
        payload_bytes=2**35,
        envelope_bytes=2**36,
        bits_per_coordinate=2.01,
        train_seconds=1.0,
        encode_seconds=0.1,
        decode_seconds=0.2,
        train_loss=0.7,
        vnmse=0.13,
        device="cpu",
    )
