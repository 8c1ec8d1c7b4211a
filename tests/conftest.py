from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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


# A test file that collects nothing (a misspelt prefix, a class that pytest does not see) must fail the whole run.
class EmptyFiles:
    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.nodeid.endswith(".py") and report.passed and not report.result:
            self.found.append(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_collection_finish(self) -> Iterator[None]:
        yield
        if self.found:
            raise pytest.UsageError(f"these test files collect no test: {', '.join(self.found)}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(EmptyFiles(), "fedcomp-empty-files")
