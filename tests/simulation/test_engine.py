"""The in-process engine of sweeps and Flower's simulation: the same model after three rounds, bit by bit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.support.commands import QUICK_TASK, flower_processes, record, run

SWEEP = f"""
name = "both"
task = "{QUICK_TASK}"
clients = 3
[settings]
num-server-rounds = 3
clients-per-round = 2
strategy = "fedadam"
server-learning-rate = 0.01
[arms]
adaptive = "eden:bits=1,allocation=adaptive"
"""
COUNTS = ("accuracy", "clients", "uplink_payload_bytes", "downlink_payload_bytes")


@pytest.mark.slow
def test_both_engines_end_with_the_same_bits(tmp_path: Path) -> None:
    file = tmp_path / "both.toml"
    file.write_text(SWEEP)
    before = flower_processes()
    found = []
    for engine in ("in-process", "flower"):
        # The same secret, since each home would make one of its own.
        home, env = tmp_path / engine, {"FEDCOMP_RUN_SECRET": "the same in both engines"}
        code, out, err = run(
            "fedcomp", "sweep", str(file), "--engine", engine, "--parallel", "1", home=home, cwd=tmp_path, env=env
        )
        assert code == 0, err + out
        found.append(record(home, tmp_path, "sweep/both/emnist/adaptive/seed-1/clients-3"))
    assert flower_processes() - before == set()
    one, other = found
    for ours, theirs in zip(one["rounds"], other["rounds"], strict=True):
        assert {key: ours[key] for key in COUNTS} == {key: theirs[key] for key in COUNTS}
        # Flower draws the numbers of nodes and runs, which have one to three bytes less where they are small.
        assert abs(ours["uplink_envelope_bytes"] - theirs["uplink_envelope_bytes"]) <= 6 * ours["clients"]
    models = [dict(load_file(Path(item["checkpoint_path"]) / "model.safetensors")) for item in found]
    assert models[0].keys() == models[1].keys()
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])
