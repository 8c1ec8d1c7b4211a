"""Synchronous rounds: draw a cohort, send the model, take the updates as they come, form the mean.

A client that fails, is late or sends anything wrong is rejected by name with the reason in the records; the round goes
on with the others.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from fedcomp.flower.mailbox import Mailbox
from server_app.assignments import Assignment, assign, measured
from server_app.coordinator import Coordinator
from server_app.intake import Intake, read_reply
from server_app.outcomes import ClientOutcome, RoundOutcome
from server_app.roster import Client
from server_app.samplers import Candidate, draw


class RoundLoop:
    """Runs rounds one after the other.

    Flower cannot take a request back. One whose reply has not come when its round ends is looked for until the next
    round ends; meanwhile its client is not asked again.
    """

    def __init__(self, coordinator: Coordinator) -> None:
        self._run = coordinator
        self._late = Mailbox(coordinator.grid)
        self._outstanding: dict[int, Assignment] = {}
        self._expires = 0.0

    def run_round(self) -> RoundOutcome:
        """Run the next round up to its mean; the model is not touched.

        Raises
        ------
        TooFewClients
            When `min-clients` are not free in time.
        """
        run, config = self._run, self._run.plan.config
        round_index = run.state.round_index + 1
        outcome = RoundOutcome(round_index, run.state.broadcaster.version or 0, started=time.perf_counter())
        intake = Intake(run.plan, run.state, outcome)

        def busy() -> set[int]:
            self._take_late(intake)
            return self._late.waiting

        clients = run.roster.wait_for(config.min_clients, timeout=config.node_timeout, busy=busy)
        wanted = run.plan.recipe.cohort_size(round_index)
        cohort = draw_cohort(run, clients, wanted + config.over_selection, number=round_index)
        assignments, refused = assign(cohort, run.plan, run.state, round_index=round_index)
        for item in refused:
            intake.note(item)
        outcome.wanted = min(wanted or len(cohort), len(cohort))
        # Twice the deadline, so that Flower still takes a reply while the next round looks for it.
        ttl = 2 * config.round_timeout
        messages = {node: asked.message(ttl=ttl, seals=run.plan.seals) for node, asked in assignments.items()}
        assignments = measured(assignments, messages)
        mailbox, sent = Mailbox(run.grid), time.monotonic()
        mailbox.send(messages)
        messages.clear()
        in_order = not (config.over_selection or config.target_upload_seconds)
        for node, reply in mailbox.replies(deadline=sent + config.round_timeout, in_order=in_order):
            asked = assignments.pop(node)
            item = intake.take(reply, asked)
            if not in_order:
                observe_uplink(run, item, time.monotonic() - sent)
            if config.over_selection and intake.accepted >= outcome.wanted:
                break
        enough = bool(config.over_selection) and intake.accepted >= outcome.wanted
        for asked in assignments.values():
            if enough:
                intake.note(replace(asked.outcome, verdict="over-selected", reject_reason="enough others were faster"))
            else:
                intake.note(replace(asked.outcome, verdict="rejected", reject_reason="no reply before the deadline"))
        self._take_late(intake)
        self._late, self._outstanding, self._expires = mailbox, assignments, sent + ttl
        intake.finish()
        return outcome

    def _take_late(self, intake: Intake) -> None:
        """Note replies to the round before; they are not mixed in."""
        for node, reply in self._late.replies(deadline=0.0):
            asked = self._outstanding.pop(node)
            found = read_reply(reply, asked, self._run.state, self._run.plan.seals).outcome
            reason = found.reject_reason or "the reply came after its round had ended"
            # The bytes of the request were counted in its own round.
            intake.note(
                replace(
                    found,
                    verdict="late",
                    reject_reason=reason,
                    round_asked=asked.request.round_index,
                    downlink_payload_bytes=0,
                    downlink_envelope_bytes=0,
                )
            )
        if time.monotonic() > self._expires:
            self._late.drop(self._late.waiting)


def draw_cohort(run: Coordinator, clients: Sequence[Client], count: int, *, number: int) -> list[tuple[Client, float]]:
    """Return ``count`` of the clients (all when 0) in the order of their ids, each with its relative chance."""
    candidates = [
        Candidate(client.name, client.client_id, known.examples, known.asked, known.replied)
        for client in clients
        for known in (run.state.ledger[client.name],)
    ]
    by_name = {client.name: client for client in clients}
    seed = run.plan.cohort_seed(number, "cohort")
    return [
        (by_name[item.name], chance) for item, chance in draw(run.plan.config.sampler, candidates, count, seed=seed)
    ]


def observe_uplink(run: Coordinator, item: ClientOutcome, seconds: float) -> None:
    """Learn a client's bandwidth from a reply that took ``seconds`` from request to reply."""
    if item.reply is None or item.client.simulated:
        return
    transfer = seconds - item.reply.train_seconds - item.reply.encode_seconds
    if transfer > 0:
        sent = item.payload_bytes + item.envelope_bytes
        run.state.uplinks.observe(item.client.name, bytes_up=sent, seconds=transfer)
