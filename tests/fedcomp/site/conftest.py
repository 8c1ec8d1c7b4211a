from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from fedcomp.site.federation import FederationFolder
from fedcomp.site.setup import Plan, create_federation

NAMES = ("hospital", "bank", "factory")


@pytest.fixture
def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def folder(tmp_path: Path, now: datetime) -> FederationFolder:
    """A federation of three sites."""
    path = tmp_path / "federation"
    create_federation(path, Plan(hosts=("fl.example.org", "192.0.2.7"), names=NAMES), now=now)
    return FederationFolder(path)
