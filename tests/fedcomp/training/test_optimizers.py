from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn

from fedcomp.errors import ConfigError
from fedcomp.training.optimizers import build_optimizer, state_bytes
from fedcomp.training.options import TrainingOptions
from tests.support.training_models import chain


@pytest.mark.parametrize(("name", "kind"), [("sgd", "SGD"), ("adam", "Adam"), ("adamw", "AdamW")])
def test_torch_has_the_optimizers(name: str, kind: str) -> None:
    options = TrainingOptions(optimizer=name, learning_rate=0.2, weight_decay=0.01, momentum=0.7)
    optimizer = build_optimizer(chain().parameters(), options)
    assert type(optimizer).__name__ == kind
    (group,) = optimizer.param_groups
    assert (group["lr"], group["weight_decay"]) == (0.2, 0.01)
    assert group.get("momentum", 0.7) == 0.7


def test_the_8_bit_optimizer_is_the_librarys_when_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("bitsandbytes")
    library.optim = SimpleNamespace(AdamW8bit=lambda parameters, **options: (list(parameters), options))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bitsandbytes", library)
    options = TrainingOptions(optimizer="adamw8bit", learning_rate=0.2, weight_decay=0.01)
    weight = nn.Parameter(torch.ones(1))
    found: object = build_optimizer([weight], options)
    assert found == ([weight], {"lr": 0.2, "weight_decay": 0.01})


def test_without_the_library_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(ConfigError, match=r"'adamw8bit', which needs .* pip install bitsandbytes, or take adamw"):
        build_optimizer(chain().parameters(), TrainingOptions(optimizer="adamw8bit"))


@pytest.mark.parametrize(
    "options",
    [
        TrainingOptions(),
        TrainingOptions(momentum=0.0),
        TrainingOptions(optimizer="adam"),
        TrainingOptions(optimizer="adamw"),
    ],
)
def test_the_size_of_the_state_is_known_beforehand(options: TrainingOptions) -> None:
    model = chain()
    optimizer = build_optimizer(model.parameters(), options)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    held = [value for state in optimizer.state.values() for value in state.values() if isinstance(value, torch.Tensor)]
    assert sum(tensor.nbytes for tensor in held if tensor.ndim) == state_bytes(model.parameters(), options)


def test_8_bits_take_about_two_bytes_a_parameter() -> None:
    weights = [nn.Parameter(torch.zeros(1000)), nn.Parameter(torch.zeros(24))]
    assert state_bytes(weights, TrainingOptions(optimizer="adamw8bit")) == 2048 + 32
