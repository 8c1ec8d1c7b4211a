from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedcomp.errors import CheckpointError
from fedcomp.vectors import VectorSpec
from server_app import checkpoint
from server_app.checkpoint import CheckpointState, list_checkpoints, load_checkpoint, save_checkpoint
from tests.support.tiny_task import BufferTask


def position(index: int, layout: VectorSpec) -> CheckpointState:
    return CheckpointState("run", index, str(2**63), layout.fingerprint, {"task": "tiny", "seed": 3})


def test_a_checkpoint_comes_back_whole(tmp_path: Path) -> None:
    state = BufferTask().build_model(seed=1).state_dict()
    layout = VectorSpec.from_state_dict(state)
    path = save_checkpoint(tmp_path / "with spaces", state, position(12, layout))
    assert path.name == "round-00012"
    found, where = load_checkpoint(path, layout)
    assert where == position(12, layout)
    assert list(found) == list(state)
    assert all(torch.equal(found[name], state[name]) for name in state)
    BufferTask().build_model(seed=2).load_state_dict(found)


def test_only_the_last_one_is_kept(tmp_path: Path) -> None:
    layout = VectorSpec.from_state_dict({"a": torch.ones(1)})
    for index in (1, 2, 10, 10):
        save_checkpoint(tmp_path, {"a": torch.full((1,), float(index))}, position(index, layout))
    assert [path.name for path in list_checkpoints(tmp_path)] == ["round-00010"]
    assert not list(tmp_path.glob(".draft*"))


def test_a_failed_write_keeps_the_last_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout = VectorSpec.from_state_dict({"a": torch.ones(1)})
    good = save_checkpoint(tmp_path, {"a": torch.ones(1)}, position(1, layout))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(CheckpointError, match="No space left on device; the last good one is kept"):
        save_checkpoint(tmp_path, {"a": torch.zeros(1)}, position(2, layout))
    assert list_checkpoints(tmp_path) == [good]
    assert load_checkpoint(good, layout)[0]["a"].tolist() == [1.0]
    assert not list(tmp_path.glob(".draft*"))


@pytest.mark.parametrize("name", ["model.safetensors", "state.json"])
@pytest.mark.parametrize("how", ["missing", "cut"])
def test_damage_is_told(tmp_path: Path, name: str, how: str) -> None:
    layout = VectorSpec.from_state_dict({"a": torch.ones(100)})
    path = save_checkpoint(tmp_path, {"a": torch.ones(100)}, position(1, layout))
    file = path / name
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(path, layout)


def test_another_model_is_refused(tmp_path: Path) -> None:
    layout = VectorSpec.from_state_dict({"a": torch.ones(1)})
    path = save_checkpoint(tmp_path, {"a": torch.ones(1)}, position(1, layout))
    with pytest.raises(CheckpointError, match="layout"):
        load_checkpoint(path, VectorSpec.from_state_dict({"b": torch.ones(1)}))
