from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

# Two busy cores make any deadline a coin toss; the same examples every time make a failure anybody's.
settings.register_profile("fedcomp", deadline=None, derandomize=True)
settings.load_profile("fedcomp")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """The tests' tensors are small: threads only wait for each other, most of all on a busy machine."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def fedcomp_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test has a FEDCOMP_HOME of its own, so that none sees or touches the user's."""
    folder = tmp_path / "fedcomp-home"
    monkeypatch.setenv("FEDCOMP_HOME", str(folder))
    # The host secret is random, so rotations and cohorts would differ each time a test runs.
    monkeypatch.setenv("FEDCOMP_RUN_SECRET", "the same in every test")
    return folder


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """Apps set the logger ``fedcomp`` up for the process they run in; here each test has it as Python makes it.

    Set before a test as well, since a fixture of a whole file may have run an app.
    """
    _make_new(logging.getLogger("fedcomp"))
    yield
    _make_new(logging.getLogger("fedcomp"))


def _make_new(logger: logging.Logger) -> None:
    logger.setLevel(logging.NOTSET)
    logger.propagate = True
    logger.handlers.clear()


# A test file that collects nothing (a misspelt prefix, a class that pytest does not see) counts as a test that fails.
class EmptyFile(pytest.Item):
    def runtest(self) -> None:
        pytest.fail(f"{self.name} collects no test", pytrace=False)


class EmptyFiles:
    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.nodeid.endswith(".py") and report.passed and not report.result:
            self.found.append(report.nodeid)

    def pytest_collection_modifyitems(self, session: pytest.Session, items: list[pytest.Item]) -> None:
        items.extend(EmptyFile.from_parent(session, name=name) for name in self.found)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(EmptyFiles(), "fedcomp-empty-files")


# Several workers (`make test`) divide the tests among them, a file at a time. Real simulations share one machine, and
# look for processes that one of them left behind: one worker runs them all, from the start, since much of their time is
# waiting. Another one has the dashboard's tests, and one PostgreSQL for all of them.
_ONE_WORKER = {
    "tests/simulation": "simulations",
    "tests/browser": "simulations",
    "tests/deployment": "simulations",
    "tests/dashboard": "dashboard",
}


def _work_unit(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return _ONE_WORKER.get("/".join(file.split("/")[:2]), file)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _work_unit(item.nodeid) not in _ONE_WORKER.values())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadScopeScheduling

    class ByWorkUnit(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return _work_unit(nodeid)

    return ByWorkUnit(config, log)
