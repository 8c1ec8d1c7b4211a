from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from dashboard.store import RunStore
from fedcomp.commands.resumed import find_resumed, settings_of
from fedcomp.errors import ConfigError
from fedcomp.home import database_url
from fedcomp.run_config import RunConfig
from tests.support.commands import run
from tests.support.runs import run_in_process, settings


def test_a_run_is_resumed_with_its_own_settings_and_clients() -> None:
    config = settings(name="mine", compressor="eden:bits=3", num_server_rounds=2, outlier_report=True)
    done, _ = run_in_process(config, clients=3)
    found, parts = find_resumed("mine")
    assert (found.id, parts) == (done.id, 3)
    again = RunConfig.from_mapping(settings_of(found))
    assert again == RunConfig.from_mapping(config | {"resume": done.id})


def test_a_damaged_checkpoint_is_passed_over() -> None:
    done, _ = run_in_process(settings(num_server_rounds=2))
    assert done.checkpoint_path is not None
    (Path(done.checkpoint_path) / "state.json").write_text("{")
    assert find_resumed(done.id)[1] == 3
    shutil.rmtree(Path(done.checkpoint_path).parent)
    with pytest.raises(ConfigError, match=r"has no checkpoint in .* that can be read; start it anew"):
        find_resumed("latest")


def test_a_run_without_checkpoints_is_refused() -> None:
    run_in_process(settings(num_server_rounds=1, checkpoint_every=0))
    with pytest.raises(ConfigError, match="has no checkpoint to resume from; start it anew"):
        find_resumed("latest")


def test_a_setting_that_is_gone_does_not_matter() -> None:
    done, _ = run_in_process(settings(num_server_rounds=1))
    with RunStore(database_url()) as store:
        store.start_run(done.id, config=dict(done.config) | {"of-an-old-release": 1})
        found = store.find_run(done.id)
    assert "of-an-old-release" not in settings_of(found)


def test_changed_settings_are_told_before_flower_starts(fedcomp_home: Path, tmp_path: Path) -> None:
    done, _ = run_in_process(settings(num_server_rounds=1, name="mine"))
    code, _, err = run("fedcomp", "simulate", "--resume", "mine", "--seed", "7", home=fedcomp_home, cwd=tmp_path)
    assert code == 1
    assert f"run {done.id} cannot be resumed with other settings: seed was 1, is 7; give seed=1" in err
