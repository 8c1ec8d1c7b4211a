"""What rounds bring: one outcome a client asked, one a round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from torch import Tensor

from fedcomp.aggregation import MeanEstimate
from fedcomp.flower.messages import TrainReply
from server_app.budgets import Budget
from server_app.outliers import ClientOutlier
from server_app.roster import Client

Verdict = Literal["applied", "rejected", "late", "over-selected"]
RUN_BUDGET = Budget(None, "run")


@dataclass(frozen=True)
class ClientOutcome:
    """What one client did in one round.

    Attributes
    ----------
    client
        Who.
    verdict
        Whether its update is part of the mean and, if not, why in one word.
    reject_reason
        Why in a sentence; None when it was applied.
    reply
        Its reply without payload and raw tensors, or None when none could be read.
    budget
        What it was allowed to send.
    payload_bytes, envelope_bytes
        Bytes of its payload, and of everything Flower sends around it.
    downlink_payload_bytes, downlink_envelope_bytes
        The same of the request.
    decode_seconds
        Time the server took to check, decode and add it.
    weight
        Its weight in the mean.
    staleness
        Model versions between the one it trained and the one it was applied to.
    round_asked
        The earlier round that asked, when the reply came in a later one.
    norm, clip_factor
        Length of its decoded update, and what it was multiplied with; None unless updates are looked at.
    uplink_mbps
        The server's estimate of its bandwidth; None in a simulation and before there is one.
    """

    client: Client
    verdict: Verdict = "applied"
    reject_reason: str | None = None
    reply: TrainReply | None = None
    budget: Budget = RUN_BUDGET
    payload_bytes: int = 0
    envelope_bytes: int = 0
    downlink_payload_bytes: int = 0
    downlink_envelope_bytes: int = 0
    decode_seconds: float = 0.0
    weight: float | None = None
    staleness: int = 0
    round_asked: int | None = None
    norm: float | None = None
    clip_factor: float | None = None
    uplink_mbps: float | None = None


@dataclass
class RoundOutcome:
    """What one round brought.

    Attributes
    ----------
    round_index, version
        Which round, and the version of the model that it began with.
    started
        When, on the clock of ``time.perf_counter``.
    wanted
        How many updates were wanted; fewer make the round partial.
    outcomes
        One entry a client that was asked.
    late
        Replies to the round before that came in this one; they are not mixed in.
    mean
        The mean update, or None when the model is kept.
    raw
        The model's integer and bool tensors after the round.
    nmse
        How far the mean is from that of the updates as trained; None unless it is measured.
    note
        Why the model was kept or rolled back.
    outliers
        By client name, when asked for.
    """

    round_index: int
    version: int
    started: float
    wanted: int = 0
    outcomes: list[ClientOutcome] = field(default_factory=list)
    late: list[ClientOutcome] = field(default_factory=list)
    mean: MeanEstimate | None = None
    raw: Mapping[str, Tensor] = field(default_factory=dict)
    nmse: float | None = None
    note: str | None = None
    outliers: Mapping[str, ClientOutlier] = field(default_factory=dict)

    @property
    def all_items(self) -> list[ClientOutcome]:
        """All replies that came in this round, and all that did not."""
        return [*self.outcomes, *self.late]

    @property
    def applied(self) -> list[ClientOutcome]:
        """The clients whose updates make the mean."""
        return [item for item in self.outcomes if item.verdict == "applied"]

    def reject_applied(self, reason: str) -> None:
        """Note that the updates that made the mean were not used after all."""
        self.outcomes = [
            replace(item, verdict="rejected", reject_reason=reason, weight=None) if item.verdict == "applied" else item
            for item in self.outcomes
        ]
