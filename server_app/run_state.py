"""All that changes from round to round: what a checkpoint holds, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedcomp.downlink import Broadcaster
from server_app.budgets import UplinkEstimates
from server_app.guard import Guard
from server_app.ledger import Ledger
from server_app.optimizers import Optimizer
from server_app.stopping import Stopper

NORMS_KEPT = 200


@dataclass
class RunState:
    """Where a run stands.

    Attributes
    ----------
    vector, raw
        The model: float32 vector of shape (dim,), and its integer and bool tensors.
    optimizer, broadcaster, ledger, guard, stopper, uplinks
        Those that decide from what was before.
    round_index
        Rounds done.
    requests
        Requests sent in asynchronous mode.
    uplink_bytes
        Payload bytes of all rounds so far, those rolled back included.
    rollbacks, void_rounds
        How often the model was rolled back, and the first and last round of each stretch that is void, flat.
    checkpoints
        Number of the last round (in asynchronous mode, request) before each checkpoint that is kept, oldest first.
    norms
        Norms of the last applied updates, when updates are looked at.
    """

    vector: Tensor
    raw: Mapping[str, Tensor]
    optimizer: Optimizer
    broadcaster: Broadcaster
    guard: Guard
    stopper: Stopper
    ledger: Ledger = field(default_factory=Ledger)
    uplinks: UplinkEstimates = field(default_factory=UplinkEstimates)
    round_index: int = 0
    requests: int = 0
    uplink_bytes: int = 0
    rollbacks: int = 0
    void_rounds: list[int] = field(default_factory=list)
    checkpoints: list[int] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)

    @property
    def last_number(self) -> int:
        """The number of the last round, in asynchronous mode of the last request: clients keep their state by it."""
        return self.requests or self.round_index

    @property
    def replay_from(self) -> int:
        """The number that no replay goes behind: clients may forget what they had before it."""
        return self.checkpoints[0] if self.checkpoints else 0

    def is_void(self, number: int) -> bool:
        """Whether a round, in asynchronous mode a request, was rolled back."""
        pairs = zip(self.void_rounds[::2], self.void_rounds[1::2], strict=True)
        return any(first <= number <= last for first, last in pairs)

    def remember_checkpoint(self, keep: int) -> None:
        """Note that a checkpoint is written now, and that only the newest ``keep`` stay."""
        self.checkpoints = [*self.checkpoints, self.last_number][-keep:]

    def remember_norms(self, norms: Sequence[float]) -> None:
        """Keep the newest norms."""
        self.norms = [*self.norms, *norms][-NORMS_KEPT:]

    def to_checkpoint(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return what a later process needs besides the model: tensors by name, and JSON values."""
        downlink_tensors, downlink = self.broadcaster.state()
        if torch.equal(downlink_tensors.get("copy", self.vector), self.vector):
            downlink_tensors.pop("copy", None)  # an exact downlink: the model itself
        tensors = {f"optimizer.{name}": value for name, value in self.optimizer.state().items()}
        tensors |= {f"downlink.{name}": value for name, value in downlink_tensors.items()}
        values = {
            "round_index": self.round_index,
            "requests": self.requests,
            "uplink_bytes": self.uplink_bytes,
            "rollbacks": self.rollbacks,
            "void_rounds": self.void_rounds,
            "checkpoints": self.checkpoints,
            "norms": self.norms,
            "ledger": self.ledger.state(),
            "uplinks": self.uplinks.state(),
            "guard": self.guard.state(),
            "stopper": self.stopper.state(),
            "downlink": downlink,
        }
        return tensors, values

    def restore(
        self, vector: Tensor, raw: Mapping[str, Tensor], tensors: Mapping[str, Tensor], values: Mapping[str, Any]
    ) -> None:
        """Become what ``to_checkpoint`` was called on."""
        self.vector, self.raw = vector, raw
        self.optimizer.restore(_part(tensors, "optimizer."))
        self.broadcaster.restore({"copy": vector, **_part(tensors, "downlink.")}, values["downlink"])
        self.ledger.restore(values["ledger"])
        self.uplinks.restore(values["uplinks"])
        self.guard.restore(values["guard"])
        self.stopper.restore(values["stopper"])
        self.round_index = values["round_index"]
        self.requests = values["requests"]
        self.uplink_bytes = values["uplink_bytes"]
        self.rollbacks = values["rollbacks"]
        self.void_rounds = list(values["void_rounds"])
        self.checkpoints = list(values["checkpoints"])
        self.norms = list(values["norms"])

    def roll_back(
        self, vector: Tensor, raw: Mapping[str, Tensor], tensors: Mapping[str, Tensor], values: Mapping[str, Any]
    ) -> None:
        """Take model, optimizer and ledger from a checkpoint, and go on counting: the rounds since then are void."""
        done, requests, sent, rollbacks = self.round_index, self.requests, self.uplink_bytes, self.rollbacks
        void, checkpoints = self.void_rounds, self.checkpoints
        self.restore(vector, raw, tensors, values)
        first = self.last_number + 1
        self.round_index, self.requests, self.uplink_bytes = done, requests, sent
        self.rollbacks, self.checkpoints = rollbacks + 1, checkpoints
        self.void_rounds = [*void, first, self.last_number]


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
