"""Real client updates to measure compressors on: a small federated training that saves what the clients would send."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedcomp.tasks.base import Examples, Task


@dataclass(frozen=True)
class UpdateSettings:
    """How the clients train.

    Attributes
    ----------
    clients
        Clients a round; all of them train in every round.
    batch_size, learning_rate, momentum
        Of the clients' SGD, one epoch a round.
    seed
        Fixes model, data and order.
    """

    clients: int = 10
    batch_size: int = 20
    learning_rate: float = 0.03
    momentum: float = 0.9
    seed: int = 1


@dataclass(frozen=True)
class ClientUpdate:
    """What the first client of a round would send: its float tensors by name, or none where none was asked for."""

    round_index: int
    tensors: dict[str, Tensor]


def collect_updates(task: Task, rounds: Sequence[int], settings: UpdateSettings) -> Iterator[ClientUpdate]:
    """Train by federated averaging and yield an item a round; in the ``rounds`` asked for it holds an update.

    The mean is exact here: no compressor has a part in these updates.
    """
    model = task.build_model(seed=settings.seed)
    examples = [
        task.client_examples(client, settings.clients, seed=settings.seed) for client in range(settings.clients)
    ]
    for round_index in range(1, max(rounds) + 1):
        before = {name: value.detach().clone() for name, value in model.state_dict().items()}
        total = {name: torch.zeros_like(value) for name, value in before.items() if value.is_floating_point()}
        first: dict[str, Tensor] | None = None
        for client, part in enumerate(examples):
            model.load_state_dict(before)
            _train(model, task, part, settings, seed=settings.seed * 1_000_003 + round_index * 1009 + client)
            after = model.state_dict()
            update = {name: after[name].detach() - before[name] for name in total}
            first = first or update
            for name, value in update.items():
                total[name] += value / settings.clients
        model.load_state_dict({name: before[name] + total.get(name, 0) for name in before})
        yield ClientUpdate(round_index, first if round_index in rounds and first else {})


def _train(model: nn.Module, task: Task, examples: Examples, settings: UpdateSettings, *, seed: int) -> None:
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.learning_rate, momentum=settings.momentum)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        order = torch.randperm(len(examples))
        for start in range(0, len(order), settings.batch_size):
            batch = order[start : start + settings.batch_size]
            targets = examples.targets[batch]
            if not task.loss_weight(targets):
                continue  # padding only: a client takes no step either
            optimizer.zero_grad()
            loss = task.loss(model(examples.inputs[batch]), targets)
            # torch has no types for backward.
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
