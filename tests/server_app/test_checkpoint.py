from __future__ import annotations

import resource
import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor

from fedcomp.errors import CheckpointError
from fedcomp.vectors import VectorSpec
from server_app import checkpoint
from server_app.checkpoint import (
    Checkpoint,
    CheckpointState,
    list_checkpoints,
    load_checkpoint,
    load_newest,
    save_checkpoint,
)
from tests.support.tiny_task import BufferTask


def at_round(index: int, model: dict[str, Tensor] | None = None, **tensors: Tensor) -> Checkpoint:
    model = {"a": torch.full((100,), float(index))} if model is None else model
    layout = VectorSpec.from_state_dict(model).fingerprint
    position = CheckpointState(
        "run", index, str(2**63), layout, {"task": "tiny", "seed": 3}, num_partitions=4, server={"ledger": {"a": [1.5]}}
    )
    return Checkpoint(model, tensors, position)


LAYOUT = VectorSpec.from_state_dict(at_round(1).model)


def test_a_checkpoint_comes_back_whole(tmp_path: Path) -> None:
    state = BufferTask().build_model(seed=1).state_dict()
    layout = VectorSpec.from_state_dict(state)
    moments = torch.randn(7, dtype=torch.float64)
    saved = at_round(12, state, moments=moments, payload=torch.tensor([1, 255], dtype=torch.uint8))
    path = save_checkpoint(tmp_path / "with spaces", saved)
    assert path.name == "round-00012"
    found = load_checkpoint(path, layout)
    assert found.position == saved.position
    assert list(found.model) == list(state)
    assert all(torch.equal(found.model[name], state[name]) for name in state)
    assert all(torch.equal(found.tensors[name], saved.tensors[name]) for name in ("moments", "payload"))
    BufferTask().build_model(seed=2).load_state_dict(found.model)


@pytest.mark.parametrize(("keep", "kept"), [(1, [10]), (2, [2, 10]), (9, [1, 2, 10])])
def test_the_newest_are_kept(tmp_path: Path, keep: int, kept: list[int]) -> None:
    for index in (1, 2, 10, 10):
        save_checkpoint(tmp_path, at_round(index), keep=keep)
    assert [path.name for path in list_checkpoints(tmp_path)] == [f"round-{index:05d}" for index in kept]
    assert not list(tmp_path.glob(".draft*"))


def test_a_run_may_have_more_rounds_than_five_digits(tmp_path: Path) -> None:
    for index in (99_998, 99_999, 100_000):
        path = save_checkpoint(tmp_path, at_round(index), keep=2)
        assert path.exists()
    assert [path.name for path in list_checkpoints(tmp_path)] == ["round-99999", "round-100000"]
    assert load_newest(tmp_path, LAYOUT).position.round_index == 100_000


def test_a_failed_write_keeps_the_last_good_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = save_checkpoint(tmp_path, at_round(1))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "save_file", full)
    with pytest.raises(CheckpointError, match="No space left on device; the last good one is kept: make room"):
        save_checkpoint(tmp_path, at_round(2))
    assert list_checkpoints(tmp_path) == [good]
    assert load_checkpoint(good, LAYOUT).model["a"].tolist() == [1.0] * 100
    assert not list(tmp_path.glob(".draft*"))


def test_a_write_that_the_system_refuses_is_told(tmp_path: Path) -> None:
    # A limit on file sizes fails in the middle of a write, as a full disk does.
    good = save_checkpoint(tmp_path, at_round(1))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, hard))
        with pytest.raises(CheckpointError, match="the last good one is kept"):
            save_checkpoint(tmp_path, at_round(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert list_checkpoints(tmp_path) == [good]
    assert load_newest(tmp_path, LAYOUT).position.round_index == 1


def test_a_draft_of_a_killed_process_is_no_checkpoint_and_goes(tmp_path: Path) -> None:
    good = save_checkpoint(tmp_path, at_round(1))
    save_checkpoint(tmp_path, at_round(2), keep=2).rename(tmp_path / ".draft-00002-99")
    assert list_checkpoints(tmp_path) == [good]
    save_checkpoint(tmp_path, at_round(3), keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["round-00001", "round-00003"]


@pytest.mark.parametrize("name", ["model.safetensors", "server.safetensors", "state.json"])
@pytest.mark.parametrize("how", ["missing", "cut"])
def test_damage_is_told_and_the_one_before_is_used(
    tmp_path: Path, name: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    save_checkpoint(tmp_path, at_round(1, more=torch.ones(3)))
    path = save_checkpoint(tmp_path, at_round(2, more=torch.ones(3)), keep=2)
    file = path / name
    if how == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="cannot be read"):
        load_checkpoint(path, LAYOUT)
    with caplog.at_level("WARNING", logger="fedcomp.server"):
        assert load_newest(tmp_path, LAYOUT).position.round_index == 1
    assert "round-00002 cannot be read" in caplog.text


def test_without_any_checkpoint_there_is_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="has no checkpoint that can be read; start the run anew"):
        load_newest(tmp_path / "none", LAYOUT)


def test_another_model_is_refused(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, at_round(1))
    with pytest.raises(CheckpointError, match="layout"):
        load_checkpoint(path, VectorSpec.from_state_dict({"b": torch.ones(1)}))
