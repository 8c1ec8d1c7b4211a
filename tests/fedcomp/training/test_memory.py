from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from fedcomp.bench.peak import peak_bytes
from fedcomp.training.memory import estimate
from fedcomp.training.options import TrainingOptions
from tests.support.tiny_task import TinyTask
from tests.support.training_models import EXAMPLES, Residual, chain, part, residual

ROOT = Path(__file__).parents[3]


def needs(model: nn.Module, **changes: object) -> tuple[int, int, int, int, int]:
    options = TrainingOptions(**{"batch_size": 12, "activation_checkpointing": "off", **changes})  # type: ignore[arg-type]
    found = estimate(model, TinyTask(), EXAMPLES, options)
    assert found.total == found.parameters + found.gradients + found.optimizer + found.activations + found.temporary
    return found.parameters, found.gradients, found.optimizer, found.activations, found.temporary


def test_weights_gradients_and_state_are_counted() -> None:
    weights = 4 * sum(parameter.numel() for parameter in chain().parameters())
    assert needs(chain())[:3] == (weights, weights, weights)
    assert needs(chain(), momentum=0.0)[2] == 0
    assert needs(chain(), optimizer="adamw")[2] == 2 * weights
    assert needs(chain(), proximal_mu=0.1)[2] == 2 * weights


def test_frozen_weights_need_no_gradient_and_buffers_count() -> None:
    model = residual(norm=True)
    blocks = 4 * 3 * (8 * 8 + 3 * 8)
    head = 4 * (8 * 2 + 2)
    buffers = 3 * (2 * 4 * 8 + 8)
    assert needs(model)[:3] == (blocks + head + buffers, blocks + head, blocks + head)
    for parameter in model.get_submodule("head").parameters():
        parameter.requires_grad_(False)
    assert needs(model)[:3] == (blocks + head + buffers, blocks, blocks)


def test_activations_grow_with_the_micro_batch_alone() -> None:
    sizes = [needs(chain(), micro_batch_size=size)[3] for size in (1, 2, 4, 8)]
    steps = [larger - smaller for smaller, larger in itertools.pairwise(sizes)]
    assert steps[0] > 0
    assert [steps[1], steps[2]] == [2 * steps[0], 4 * steps[0]]
    assert needs(chain(), micro_batch_size=4, batch_size=20) == needs(chain(), micro_batch_size=4)
    # No more examples than there are.
    assert needs(chain(), batch_size=500) == needs(chain(), batch_size=24)


def test_activations_of_a_layer_are_known_by_hand() -> None:
    """A linear layer keeps its input of 4·8 bytes an example, the loss its log-probabilities and targets."""
    model = nn.Linear(8, 2)
    activations = needs(model)[3]
    assert activations == pytest.approx(12 * (4 * 8 + 4 * 2 + 8), abs=64)


def test_shared_tensors_count_once_and_weights_never() -> None:
    wide = nn.Sequential(nn.Linear(8, 1000), nn.Tanh(), nn.Linear(1000, 2))
    # The output of Tanh is what the next layer keeps as its input.
    assert needs(wide)[3] == pytest.approx(12 * 4 * 1000, rel=0.1)
    assert needs(wide)[4] == 2 * 12 * 4 * 1000


def test_recomputing_keeps_the_inputs_of_blocks_and_one_block() -> None:
    deep = Residual()
    deep.blocks = nn.ModuleList(type(deep.blocks[0])(8, dropout=0.1, norm=False) for _ in range(20))
    plain, less = needs(deep), needs(deep, activation_checkpointing="on")
    assert less[3] < 0.6 * plain[3]
    # Twenty inputs of 4·8 bytes an example at least, and what is inside one block.
    assert less[3] > 12 * 20 * 4 * 8
    assert less[:3] == plain[:3]
    assert needs(deep, activation_checkpointing="auto") == plain
    # Nothing to recompute, nothing gained.
    assert needs(nn.Linear(8, 2), activation_checkpointing="on") == needs(nn.Linear(8, 2))


class Wide(nn.Module):
    """Keeps 4·1000 bytes an example inside, and takes and gives 4·8."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 1000), nn.Linear(1000, 8)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down(torch.tanh(self.up(x)))
        return out


def test_of_all_blocks_only_one_is_there_at_a_time() -> None:
    model = nn.Sequential(Wide(), Wide(), Wide(), nn.Linear(8, 2))
    assert needs(model)[3] == pytest.approx(12 * 4 * 3000, rel=0.1)
    assert needs(model, activation_checkpointing="on")[3] == pytest.approx(12 * 4 * 1000, rel=0.1)


def test_bfloat16_keeps_less() -> None:
    wide = nn.Sequential(nn.Linear(8, 1000), nn.Tanh(), nn.Linear(1000, 2))
    assert needs(wide, precision="bfloat16")[3] < 0.8 * needs(wide)[3]


def test_the_largest_tensor_is_found_among_those_that_grow() -> None:
    """With three examples the largest is the weight in bfloat16, with two hundred an activation."""
    wide = nn.Sequential(nn.Linear(8, 50), nn.Tanh(), nn.Linear(50, 2))
    examples = TinyTask(examples=200).client_examples(0, 1, seed=1)
    options = TrainingOptions(batch_size=200, activation_checkpointing="off", precision="bfloat16")
    assert estimate(wide, TinyTask(), examples, options).temporary == 2 * (2 * 50 * 200)


def test_without_examples_there_are_no_activations() -> None:
    found = estimate(chain(), TinyTask(), part(EXAMPLES, 0), TrainingOptions())
    assert (found.activations, found.temporary) == (0, 0)


MEASURE = """
import copy, json, sys
import torch
from torch import Tensor, nn
from fedcomp.bench.peak import peak_bytes
from fedcomp.tasks.base import Examples
from fedcomp.tasks.emnist_model import EmnistCnn
from fedcomp.training.loop import train
from fedcomp.training.memory import estimate
from fedcomp.training.options import TrainingOptions
from tests.support.tiny_task import TinyTask

torch.set_num_threads(1)
torch.manual_seed(1)
deep = nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.Tanh())), nn.Linear(256, 2))
rows = Examples(torch.rand(3072, 256), torch.arange(3072) % 2)
images = Examples(torch.rand(64, 1, 28, 28), torch.arange(64) % 62)
cases = [(EmnistCnn(seed=1), images, {}), (EmnistCnn(seed=1), images, {"precision": "bfloat16"})]
cases += [(deep, rows, {}), (deep, rows, {"micro_batch_size": 1536, "optimizer": "adamw"})]
cases += [(deep, rows, {"activation_checkpointing": "on"})]
for model, examples, changes in cases:
    wanted = {"batch_size": len(examples), "activation_checkpointing": "off", **changes}
    options = TrainingOptions(**wanted)
    found = estimate(model, TinyTask(), examples, options)
    def action():
        return train(trained, TinyTask(), examples, options, device=torch.device("cpu"), seed=1)
    for _ in range(2):
        trained = copy.deepcopy(model)
        peak = peak_bytes(action, torch.device("cpu"))
    print(json.dumps([found.total - found.parameters, peak]))
"""


@pytest.mark.skipif(
    peak_bytes(lambda: None, torch.device("cpu")) is None, reason="this system does not tell a process's peak memory"
)
def test_the_estimate_is_what_training_takes() -> None:
    """Between 0.95 and 1.5 times the measured peak, for five models and options: rather too much than too little."""
    # Every larger tensor is asked from the system and given back, so that the process's memory is that of its tensors.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}
    shown = subprocess.run(
        [sys.executable, "-c", MEASURE], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    pairs = [json.loads(line) for line in shown.splitlines()]
    assert len(pairs) == 5
    ratios = [round(estimated / peak, 2) for estimated, peak in pairs]
    assert min(ratios) > 0.95, ratios
    assert max(ratios) < 1.5, ratios
