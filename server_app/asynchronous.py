"""Asynchronous mode: clients train without waiting for each other, and each few updates make a step.

Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, "Federated learning with buffered asynchronous aggregation"
(FedBuff), AISTATS 2022 (arXiv 2106.06639). An update that is s versions old has its weight divided by sqrt(1 + s), as
there; one older than `max-staleness` is rejected. A step stands in the records as a round.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from flwr.app import Message

from fedcomp.flower.mailbox import POLL_SECONDS, Failure, Mailbox
from server_app.assignments import Assignment, assign, measured
from server_app.coordinator import Coordinator
from server_app.intake import Intake, read_reply
from server_app.outcomes import RoundOutcome
from server_app.rounds import draw_cohort, observe_uplink


@dataclass(frozen=True)
class _Sent:
    asked: Assignment
    at: float


class AsyncLoop:
    """Runs steps one after the other; requests stay under way from step to step."""

    def __init__(self, coordinator: Coordinator) -> None:
        self._run = coordinator
        self._mailbox = Mailbox(coordinator.grid)
        self._under_way: dict[int, _Sent] = {}

    def run_round(self) -> RoundOutcome:
        """Collect one buffer of updates; the model is not touched.

        A step ends early, with what it has, when every client had its turn: it replied, or its `round-timeout` passed.

        Raises
        ------
        TooFewClients
            When `min-clients` are not connected in time.
        """
        run, config = self._run, self._run.plan.config
        version = run.state.broadcaster.version or 0
        outcome = RoundOutcome(run.state.round_index + 1, version, started=time.perf_counter())
        outcome.wanted = config.async_buffer_size
        intake = Intake(run.plan, run.state, outcome)
        run.roster.wait_for(config.min_clients, timeout=config.node_timeout)
        while intake.accepted < config.async_buffer_size:
            self._ask(intake, outcome)
            if not self._under_way:
                break  # all had their turn in this step
            for node, reply in self._mailbox.replies(deadline=0.0):
                self._take(intake, self._under_way.pop(node), reply, version)
                if intake.accepted >= config.async_buffer_size:
                    break
            else:
                self._give_up(intake)
                time.sleep(POLL_SECONDS)
        intake.finish()
        return outcome

    def _ask(self, intake: Intake, outcome: RoundOutcome) -> None:
        """Ask as many clients as may be at work; nobody twice in one step."""
        run, config = self._run, self._run.plan.config
        seen = {item.client.name for item in outcome.outcomes}
        idle = [
            client
            for client in run.roster.connected()
            if client.node_id not in self._under_way and client.name not in seen
        ]
        count = (
            min(len(idle), config.async_concurrency - len(self._under_way)) if config.async_concurrency else len(idle)
        )
        if count <= 0:
            return
        run.state.requests += 1
        number = run.state.requests
        assignments, refused = assign(
            draw_cohort(run, idle, count, number=number), run.plan, run.state, round_index=number
        )
        for item in refused:
            intake.note(item)
        messages = {
            node: asked.message(ttl=config.round_timeout, seals=run.plan.seals) for node, asked in assignments.items()
        }
        self._mailbox.send(messages)
        now = time.monotonic()
        self._under_way |= {node: _Sent(asked, now) for node, asked in measured(assignments, messages).items()}

    def _take(self, intake: Intake, sent: _Sent, reply: Message | Failure, version: int) -> None:
        run, limit = self._run, self._run.plan.config.max_staleness
        # A version that was rolled back counts as none; what was made from it is rejected as void.
        staleness = max(version - sent.asked.request.version, 0)
        if staleness <= limit:
            item = intake.take(reply, sent.asked, staleness=staleness)
            observe_uplink(run, item, time.monotonic() - sent.at)
            return
        found = read_reply(reply, sent.asked, run.state, run.plan.seals).outcome
        reason = found.reject_reason or f"the update is {staleness} versions old, max-staleness is {limit}"
        intake.note(replace(found, verdict="rejected", reject_reason=reason, staleness=staleness))

    def _give_up(self, intake: Intake) -> None:
        """Reject those that had their time."""
        oldest = time.monotonic() - self._run.plan.config.round_timeout
        overdue = {node: sent for node, sent in self._under_way.items() if sent.at < oldest}
        self._mailbox.drop(set(overdue))
        for node, sent in overdue.items():
            del self._under_way[node]
            intake.note(replace(sent.asked.outcome, verdict="rejected", reject_reason="no reply before the deadline"))
