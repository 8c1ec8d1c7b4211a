from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_model, save_model
from torch import Tensor, nn
from typer.testing import CliRunner

from dashboard.store import RunStart, RunStore
from fedcomp.commands.export import ExportExists, ExportNotWritten, file_stem
from fedcomp.commands.main import app
from fedcomp.commands.onnx_file import OnnxFailed, OnnxMissing
from fedcomp.errors import CheckpointError, ConfigError, FedcompError
from fedcomp.home import database_url, home
from fedcomp.tasks.base import Task
from fedcomp.tasks.registry import load_task
from tests.support.commands import QUICK_TASK
from tests.support.tiny_task import TinyTask

TINY = "tests.support.tiny_task:TinyTask"
BUFFERS = "tests.support.tiny_task:BufferTask"
SEED = 7


class BranchingTask(TinyTask):
    """A model whose computation depends on the values it sees, which ONNX cannot express from one example."""

    name = "branching"

    def build_model(self, *, seed: int) -> nn.Module:
        return Branching()


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x)
        return out if bool(out.sum() > 0) else -out


def trained(task: Task) -> nn.Module:
    """Return the task's model with weights that no seed gives."""
    model = task.build_model(seed=SEED)
    generator = torch.Generator().manual_seed(123)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def checkpointed_run(task: str = TINY, *, name: str = "mine", model: nn.Module | None = None) -> str:
    with RunStore(database_url()) as store:
        run_id = store.create_run(
            RunStart(
                name=name,
                task=task,
                data_label="data",
                compressor="identity",
                strategy="fedavg",
                seed=SEED,
                num_rounds=3,
                dim=8,
                config={"task": task},
                environment={},
            )
        )
        store.start_run(run_id)
        folder = home() / "checkpoints" / run_id / "round-00003"
        folder.mkdir(parents=True)
        # Like a run's own checkpoints this stores tied tensors once.
        save_model(model or trained(load_task(task)), str(folder / "model.safetensors"))
        store.set_checkpoint(run_id, str(folder))
    return run_id


def export(*words: str | Path) -> str:
    result = CliRunner().invoke(app, ["export", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


@pytest.mark.parametrize("spec", [TINY, BUFFERS, QUICK_TASK])
def test_both_files_compute_what_the_trained_model_does(spec: str, tmp_path: Path) -> None:
    run_id = checkpointed_run(spec)
    out = tmp_path / "models" / "here"
    said = export(run_id, "--out", out)
    assert names(out) == {"mine.safetensors", "mine.onnx"}
    (tmp_path / "usual").touch()
    for path in out.iterdir():
        assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
        assert f"{path}: {path.stat().st_size:,} bytes, the model of round-00003 of run {run_id}\n" in said

    task = load_task(spec)
    model = trained(task)
    examples = task.test_examples(seed=SEED).inputs
    read = task.build_model(seed=0)
    load_model(read, out / "mine.safetensors")
    read.eval()

    proto = onnx.load(out / "mine.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert [item.name for item in proto.graph.input] == ["input"]
    assert [item.name for item in proto.graph.output] == ["output"]
    session = ReferenceEvaluator(proto)
    for batch in (1, 3):
        inputs = examples[:batch]
        with torch.no_grad():
            expected = model(inputs)
            assert torch.equal(read(inputs), expected)
        (got,) = session.run(None, {"input": inputs.numpy()})
        torch.testing.assert_close(torch.from_numpy(got), expected, rtol=1e-4, atol=1e-5)


def test_the_safetensors_file_tells_where_it_comes_from(tmp_path: Path) -> None:
    run_id = checkpointed_run(BUFFERS)
    export(run_id, "--out", tmp_path, "--format", "safetensors")
    with safe_open(tmp_path / "mine.safetensors", framework="pt") as file:
        assert file.metadata() == {
            "format": "pt",
            "fedcomp-run": run_id,
            "fedcomp-checkpoint": "round-00003",
            "fedcomp-task": BUFFERS,
        }
        assert len({"first.weight", "second.weight"} & set(file.keys())) == 1


@pytest.mark.parametrize(("kind", "files"), [("safetensors", {"mine.safetensors"}), ("onnx", {"mine.onnx"})])
def test_one_format_writes_one_file(kind: str, files: set[str], tmp_path: Path) -> None:
    export(checkpointed_run(), "--out", tmp_path / "out", "--format", kind)
    assert names(tmp_path / "out") == files


def test_the_folder_is_this_one_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    export(checkpointed_run(), "--format", "safetensors")
    assert names(tmp_path / "here") == {"mine.safetensors"}


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("mine", "mine"),
        ("Größe 2.1_b", "Größe-2.1_b"),
        ("a/b\\..", "a-b"),
        ("../../etc", "etc"),
        (".hidden", "hidden"),
        ("ü" * 300, "ü" * 60),
        ("", None),
        ("//", None),
        ("..", None),
    ],
)
def test_files_are_named_after_the_run(name: str, stem: str | None) -> None:
    run_id = checkpointed_run(name=name)
    with RunStore(database_url()) as store:
        assert file_stem(store.find_run(run_id)) == (stem or run_id)


def test_a_file_in_the_way_is_told_before_anything_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = checkpointed_run()
    (tmp_path / "mine.onnx").touch()
    monkeypatch.setattr("fedcomp.commands.export.TemporaryDirectory", pytest.fail)
    with pytest.raises(ExportExists, match=r"mine\.onnx"):
        export(run_id, "--out", tmp_path)


def test_what_is_there_is_replaced_only_when_forced(tmp_path: Path) -> None:
    run_id = checkpointed_run()
    there = tmp_path / "mine.onnx"
    there.write_text("precious")
    with pytest.raises(ExportExists, match=r"mine\.onnx: there already; --force replaces, --out names another folder"):
        export(run_id, "--out", tmp_path)
    assert there.read_text() == "precious"
    assert "mine.safetensors" not in names(tmp_path)
    # the other format is not in the way
    export(run_id, "--out", tmp_path, "--format", "safetensors")
    export(run_id, "--out", tmp_path, "--force")
    assert onnx.load(there).graph.node


def test_a_file_that_appears_meanwhile_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = checkpointed_run()
    there = tmp_path / "mine.safetensors"

    def write(*_: Any, **__: Any) -> None:
        there.write_text("precious")

    monkeypatch.setattr("fedcomp.commands.onnx_file.write_onnx", write)
    with pytest.raises(ExportExists, match="there already"):
        export(run_id, "--out", tmp_path)
    assert there.read_text() == "precious"


def test_a_run_without_a_checkpoint_is_told() -> None:
    run_id = checkpointed_run()
    with RunStore(database_url()) as store:
        (start,) = [RunStart(**store.find_run(run_id).model_dump(include=set(RunStart.model_fields)))]
        bare = store.create_run(start.model_copy(update={"name": "bare"}))
    with pytest.raises(CheckpointError, match=rf"run {bare} \(queued, 0 of 3 rounds\) has no checkpoint to export"):
        export("bare")


@pytest.mark.parametrize(("ended", "hint"), [(False, "try again"), (True, "it was moved")])
def test_a_checkpoint_that_is_gone_is_told(ended: bool, hint: str, tmp_path: Path) -> None:
    run_id = checkpointed_run()
    if ended:
        with RunStore(database_url()) as store:
            store.finish_run(run_id, "completed")
    shutil.rmtree(home() / "checkpoints" / run_id)
    with pytest.raises(CheckpointError, match=rf"round-00003 of run {run_id} is gone .*{hint}"):
        export(run_id, "--out", tmp_path / "out")
    assert names(tmp_path / "out") == set()


@pytest.mark.parametrize("kind", ["safetensors", "onnx"])
def test_a_damaged_checkpoint_is_told(kind: str, tmp_path: Path) -> None:
    run_id = checkpointed_run()
    (path,) = home().glob("checkpoints/*/*/model.safetensors")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"round-00003.* cannot be read"):
        export(run_id, "--out", tmp_path / "out", "--format", kind)
    assert names(tmp_path / "out") == set()


def test_a_checkpoint_of_another_model_is_told(tmp_path: Path) -> None:
    run_id = checkpointed_run(model=nn.Linear(3, 3))
    with pytest.raises(CheckpointError, match=r"cannot be read as the model of task 'tests.*TinyTask'"):
        export(run_id, "--out", tmp_path / "out")
    assert names(tmp_path / "out") == set()


def test_a_task_that_is_not_here_stops_only_onnx(tmp_path: Path) -> None:
    run_id = checkpointed_run("nowhere.module:Task", model=nn.Linear(2, 2))
    with pytest.raises(ConfigError, match=rf"run {run_id}: .*'nowhere.module'.*PYTHONPATH; --format safetensors needs"):
        export(run_id, "--out", tmp_path / "out")
    assert names(tmp_path / "out") == set()
    export(run_id, "--out", tmp_path / "out", "--format", "safetensors")
    assert names(tmp_path / "out") == {"mine.safetensors"}


def test_a_model_that_onnx_cannot_express_is_told(tmp_path: Path) -> None:
    run_id = checkpointed_run("tests.fedcomp.commands.test_export:BranchingTask")
    with pytest.raises(OnnxFailed, match=r"BranchingTask' cannot be written as ONNX: \w+: ") as caught:
        export(run_id, "--out", tmp_path / "out")
    assert issubclass(OnnxFailed, FedcompError)
    assert "\x1b" not in str(caught.value)
    assert names(tmp_path / "out") == set()


def test_without_the_extra_nothing_is_written_and_the_way_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = checkpointed_run()
    monkeypatch.setattr(
        "fedcomp.commands.onnx_file.find_spec", lambda name: None if name == "onnxscript" else find_spec(name)
    )
    with pytest.raises(OnnxMissing, match=r"and onnxscript, and onnxscript is not .*pip install 'fedcomp\[onnx\]'"):
        export(run_id, "--out", tmp_path / "out")
    assert names(tmp_path / "out") == set()
    export(run_id, "--out", tmp_path / "out", "--format", "safetensors")
    assert names(tmp_path / "out") == {"mine.safetensors"}


@pytest.mark.parametrize("error", [OSError("No space left on device"), SafetensorError("No space left on device")])
def test_a_full_disk_leaves_nothing_behind(error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = checkpointed_run()

    def half(_: object, target: Path, **__: object) -> None:
        assert target.parent.parent == tmp_path / "out"  # renaming it must not mean copying it
        target.write_bytes(b"half")
        raise error

    monkeypatch.setattr("safetensors.torch.save_file", half)
    with pytest.raises(ExportNotWritten, match=rf"run {run_id} could not be written to .*No space left"):
        export(run_id, "--out", tmp_path / "out")
    assert names(tmp_path / "out") == set()


def test_a_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    run_id = checkpointed_run()
    (tmp_path / "out").write_text("")
    with pytest.raises(ExportNotWritten, match="could not be written to"):
        export(run_id, "--out", tmp_path / "out")


def test_torch_keeps_its_warnings_to_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    # Warnings are errors here: a torch that warns would fail the export.
    logger = logging.getLogger("torch.onnx")
    logger.setLevel(logging.INFO)
    said = export(checkpointed_run(), "--out", tmp_path / "out", "--format", "onnx")
    assert said.count("\n") == 1
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert capfd.readouterr() == ("", "")
    assert logger.level == logging.INFO


def test_the_command_line_loads_neither_torch_nor_onnx() -> None:
    code = "import fedcomp.commands.main, sys, json; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "onnx", "onnxscript"} & set(json.loads(done.stdout))
    assert find_spec("onnx") is not None


def test_a_wrong_format_names_the_right_ones() -> None:
    result = CliRunner().invoke(app, ["export", "latest", "--format", "pickle"])
    assert result.exit_code == 2
    for word in ("safetensors", "onnx", "all"):
        assert word in result.output
