from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import inspect

import dashboard
import fedcomp
from dashboard.db import create_engine_for, upgrade
from dashboard.models import Base

OPEN_A_STORE = """
import sys
import dashboard.store
assert dashboard.__file__.startswith(sys.argv[1]), dashboard.__file__
with dashboard.store.RunStore(sys.argv[2]) as store:
    assert store.list_runs() == []
loaded = {"flwr", "torch", "ray"} & set(sys.modules)
assert not loaded, loaded
"""


def test_the_migrated_schema_is_that_of_the_models(empty_url: str) -> None:
    engine = create_engine_for(empty_url)
    upgrade(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
        inspector = inspect(connection)
        # compare_metadata does not look at these
        for name, table in Base.metadata.tables.items():
            assert inspector.get_pk_constraint(name)["constrained_columns"] == [c.name for c in table.primary_key]
            assert inspector.get_pk_constraint(name)["name"] == table.primary_key.name
            found = {key["name"]: key["options"].get("ondelete") for key in inspector.get_foreign_keys(name)}
            assert found == {key.name: key.ondelete for key in table.foreign_key_constraints}
    engine.dispose()


def test_every_migration_survives_the_filters_of_an_app_bundle() -> None:
    folder = Path(dashboard.__file__).parent
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".pyc":
            assert path.suffix in {".py", ".toml", ".md", ".yaml", ".json"} or "migrations" not in path.parts
            assert not re.fullmatch(r"test_.*\.py|.*_test\.py", path.name)


def test_a_copy_of_only_the_python_files_migrates_a_database(tmp_path: Path) -> None:
    bundle = tmp_path / "app 100% bundle"
    for package in (dashboard, fedcomp):
        source = Path(next(iter(package.__path__)))
        for path in source.rglob("*.py"):
            target = bundle / source.name / path.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", OPEN_A_STORE, str(bundle), f"sqlite:///{tmp_path / 'runs.db'}"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(bundle), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout + done.stderr == ""
