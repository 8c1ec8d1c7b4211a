from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from fedcomp.tasks.emnist_model import EmnistCnn
from fedcomp.training.blocks import _parts, blocks, each_block
from tests.support.training_models import EXAMPLES, Block, Residual, chain, residual


def block() -> Block:
    return Block(8, dropout=0.0, norm=False)


def names(model: nn.Module) -> list[str]:
    found = blocks(model)
    return [name for name, module in model.named_modules() if any(module is item for item in found)]


LAYER = nn.TransformerEncoderLayer(8, 2, dim_feedforward=16)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (Residual(), ["blocks.0", "blocks.1", "blocks.2"]),
        (nn.TransformerEncoder(LAYER, 2, enable_nested_tensor=False), ["layers.0", "layers.1"]),
        # As in residual networks: lists of blocks in a list, and plain layers beside them.
        (
            nn.Sequential(nn.Linear(8, 8), nn.Sequential(block(), block()), nn.ModuleList([block()]), nn.Linear(8, 2)),
            ["1.0", "1.1", "2.0"],
        ),
        # Blocks in blocks are not looked into.
        (nn.ModuleList([Residual()]), ["0"]),
        (nn.Sequential(*(nn.Linear(8, 8) for _ in range(4))), [""]),
        (nn.Sequential(*(nn.Linear(8, 8) for _ in range(3))), []),
        # A ModuleList has no forward pass of its own to cut into parts.
        (nn.ModuleList(nn.Linear(8, 8) for _ in range(5)), []),
        (EmnistCnn(seed=1), []),
        (nn.Linear(8, 8), []),
    ],
)
def test_blocks_are_members_of_lists(model: nn.Module, expected: list[str]) -> None:
    assert names(model) == expected


@pytest.mark.parametrize("build", [residual, chain])
def test_each_block_goes_through_the_runner_and_the_result_stays(build: Callable[[], nn.Module]) -> None:
    model = build()
    expected = model(EXAMPLES.inputs)
    ran: list[int] = []

    def runner(
        modules: Sequence[nn.Module], forward: Callable[..., Any], inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        ran.append(len(modules))
        return forward(*inputs, **named)

    with each_block(model, runner):
        assert torch.equal(model(EXAMPLES.inputs), expected)
    assert ran == ([1, 1, 1] if build is residual else [2, 2, 2])
    ran.clear()
    model(EXAMPLES.inputs)
    assert not ran


def test_a_forward_of_the_users_own_comes_back() -> None:
    model = residual()
    first = blocks(model)[0]
    mine = first.forward
    first.__dict__["forward"] = mine
    with each_block(model, lambda _, forward, inputs, named: forward(*inputs, **named)):
        assert first.__dict__["forward"] is not mine
    assert first.__dict__["forward"] is mine


def test_no_part_begins_by_overwriting_its_input() -> None:
    layers = [nn.Linear(8, 8), nn.Linear(8, 8), nn.ReLU(inplace=True), nn.Linear(8, 8), nn.Linear(8, 8)]
    assert [len(part) for part in _parts(layers)] == [3, 2]
    assert [len(part) for part in _parts([nn.Linear(8, 8) for _ in range(9)])] == [3, 3, 3]
