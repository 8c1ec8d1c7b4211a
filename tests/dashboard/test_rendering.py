from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from jinja2 import Environment

from dashboard.rendering import environment
from tests.support.dashboard_server import serving


def test_the_first_page_waits_for_no_template(
    migrated_sqlite: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'runs.db')}"
    with serving(url) as served:
        monkeypatch.setattr(Environment, "compile", None)
        for path in ("/", "/clients", "/compressors", "/login", "/api/docs", "/runs/nothing"):
            assert served.client.get(path).status_code in (200, 404), path


def test_all_that_is_shown_is_escaped() -> None:
    found = environment().from_string("{{ text }}").render(text="<b>")
    assert found == "&lt;b&gt;"
