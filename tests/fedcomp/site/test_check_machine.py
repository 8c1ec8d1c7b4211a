from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fedcomp.data.sources import prepare
from fedcomp.site.check_machine import check_machine
from fedcomp.site.findings import Finding, Verdict
from fedcomp.site.profile import CoordinatorEntry, SiteProfile
from tests.support.femnist_forms import characters, write_leaf

OURS = CoordinatorEntry(address="localhost", port=1, fedcomp=version("fedcomp"), flwr=version("flwr"))


@pytest.fixture(autouse=True)
def programs_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")


def check(folder: Path, **settings: object) -> dict[str, Finding]:
    profile = SiteProfile.model_validate({"name": "bank", "coordinator": OURS, **settings})
    return {finding.what: finding for finding in check_machine(profile, folder / "site.toml")}


def test_versions_and_programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = check(tmp_path)
    assert list(found) == ["fedcomp", "flwr", "programs", "data"]
    assert [finding.verdict for finding in found.values()] == [Verdict.OK, Verdict.OK, Verdict.OK, Verdict.NOTE]
    other = check(tmp_path, coordinator=OURS.model_copy(update={"fedcomp": "9.8.7", "flwr": ""}))
    assert other["fedcomp"].verdict is Verdict.WRONG
    assert f"{OURS.fedcomp} is installed, the coordinator has 9.8.7; install that one" in other["fedcomp"].says
    assert other["flwr"].verdict is Verdict.NOTE
    assert list(check(tmp_path, coordinator=None)) == ["programs", "data"]
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    missing = check(tmp_path)["programs"]
    assert missing.verdict is Verdict.WRONG
    assert "flower-supernode, flower-superexec, flwr-clientapp not on the PATH" in missing.says
    assert f"export PATH={Path(sys.executable).parent}:$PATH" in missing.says


@pytest.mark.parametrize(
    ("wanted", "said", "verdict", "says"),
    [
        ("cuda", "0\n\n", Verdict.WRONG, "asks for 'cuda', torch sees no GPU; see nvidia-smi"),
        ("cuda:1", "1\nTesla\n", Verdict.WRONG, "asks for 'cuda:1', torch sees 1 (Tesla)"),
        ("cuda:1", "2\nTesla; Tesla\n", Verdict.OK, "cuda:1: Tesla; Tesla"),
        ("cuda", "", Verdict.WRONG, "torch cannot say which GPUs there are (IndexError)"),
        ("gpu", "1\nTesla\n", Verdict.WRONG, "asks for 'gpu'; allowed: auto, cpu, cuda"),
        ("cuda:x", "1\nTesla\n", Verdict.WRONG, "asks for 'cuda:x'; allowed"),
        ("cpu", "0\n\n", Verdict.OK, "cpu"),
    ],
)
def test_devices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, said: str, verdict: Verdict, says: str
) -> None:
    done = subprocess.CompletedProcess([], 0, stdout=said, stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    found = check(tmp_path, device=wanted)["device"]
    assert found.verdict is verdict
    assert says in found.says


def test_torch_is_really_asked(tmp_path: Path) -> None:
    import torch

    found = check(tmp_path, device="cuda")["device"]
    assert found.verdict is (Verdict.OK if torch.cuda.is_available() else Verdict.WRONG)
    assert torch.cuda.is_available() or "torch sees no GPU" in found.says


def test_data(tmp_path: Path, fedcomp_home: Path) -> None:
    gone = check(tmp_path, data="data/mine")["data"]
    assert gone.verdict is Verdict.WRONG
    assert f"no prepared data set 'mine' in {tmp_path / 'data'}; make it: fedcomp data prepare" in gone.says
    write_leaf(tmp_path / "leaf" / "train" / "0.json", characters({"a": 3, "b": 5}, seed=1))
    write_leaf(tmp_path / "leaf" / "test" / "0.json", characters({"a": 2}, seed=2))
    prepare("emnist", str(tmp_path / "leaf"), name="mine", replace=False)
    folder = fedcomp_home / "data" / "mine"
    found = check(tmp_path, data=str(folder))["data"]
    assert found.verdict is Verdict.OK
    assert "8 training examples: FEMNIST" in found.says
    (folder / "train-inputs.npy").write_bytes(b"short")
    assert "has 5 bytes, expected" in check(tmp_path, data=str(folder))["data"].says
